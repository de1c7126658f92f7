"""Words written alike and said in two ways: which of the two a sentence asks for."""

from __future__ import annotations

from collections.abc import Sequence

from talkahead.text.lexicon import Role
from talkahead.text.word_list import word_list

_BASE_TAKERS = word_list(
    """to will would shall should can could may might must do does did don't doesn't didn't won't wouldn't
    can't couldn't shouldn't cannot let's please not never"""
)
"""Words before a verb's base form."""
_SUBJECTS = word_list("i you he she it we they who that which people always often also usually")
_NOMINAL = word_list(
    """a an the this these those my your his her its our their some any every no each of in on at by for
    with from into about and or more most such very one two three four five"""
)
"""Words before a noun or adjective."""
_OBJECTS = word_list("a an the this these those my your his her its our their me him them us it")
_PLACES = word_list("in on at with by near here there alone together happily")
_LIVING = frozenset(("live", "lives"))
_PAST = frozenset(("read", "misread"))
"""Said as a verb's base form only after words that ask for one."""


def role_of(words: Sequence[str], index: int) -> Role:
    """The role of words[index], by the words beside it."""
    before = words[index - 1] if index > 0 else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    word = words[index]
    if before in _BASE_TAKERS:
        return Role.VERB
    if word in _PAST:
        return Role.OTHER
    if before in _SUBJECTS:
        return Role.VERB
    if word in _LIVING and after in _PLACES and before not in _NOMINAL:
        return Role.VERB
    return Role.VERB if after in _OBJECTS and before not in _NOMINAL else Role.OTHER
