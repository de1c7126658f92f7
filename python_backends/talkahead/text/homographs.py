"""Words written alike and said in two ways: which of the two a sentence asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Sense:
    """A second meaning of a word, said in another way."""

    phonemes: str
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    """Words that ask for it just before or just after."""
    is_verb: bool = False
    """Whether the word as a verb has this meaning."""


_TORN = word_list("up down apart off out open through into")
_SENSES: dict[str, Sense] = {
    "lead": Sense(
        "L EH1 D",
        word_list("of molten containing heavy white red"),
        word_list(
            """pipe pipes piping paint poisoning pencil pencils acetate crystal glass bullet bullets shot
            weight weights oxide ore solder exposure contamination levels"""
        ),
    ),
    "bass": Sense(
        "B EY1 S",
        word_list("plays play played playing double electric upright deep drum"),
        word_list(
            """guitar guitars guitarist line lines player players drum drums clef voice voices singer note
            notes solo boost sound string strings part"""
        ),
    ),
    "tear": Sense("T EH1 R", after=_TORN, is_verb=True),
    "tears": Sense("T EH1 R Z", after=_TORN, is_verb=True),
    "wound": Sense("W AW1 N D", word_list("tightly"), word_list("up around tightly through")),
    "dove": Sense("D OW1 V", after=word_list("into in off down under")),
    "bow": Sense("B OW1", word_list("violin cross her"), word_list("tie ties and string")),
    "resume": Sense("R EH1 Z AH0 M EY2", _NOMINAL),
}


def sense_of(words: Sequence[str], index: int) -> str:
    """Phonemes of words[index], if the words beside it ask for its second meaning; else ""."""
    sense = _SENSES.get(words[index])
    if sense is None:
        return ""
    before, after = ("", *words, "")[index], ("", *words, "")[index + 2]
    is_asked = before in sense.before or after in sense.after
    is_asked |= sense.is_verb and role_of(words, index) is Role.VERB
    return sense.phonemes if is_asked else ""


def role_of(words: Sequence[str], index: int) -> Role:
    """The role of words[index], by the words beside it."""
    before = words[index - 1] if index > 0 else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    word = words[index]
    if before in _BASE_TAKERS:
        return Role.VERB
    if word in _PAST:
        is_asked = before in _SUBJECTS and index > 1 and words[index - 2] in _BASE_TAKERS
        return Role.VERB if is_asked or (not before and after in _OBJECTS) else Role.OTHER
    if before in _SUBJECTS:
        return Role.VERB
    if word in _LIVING and after in _PLACES and before not in _NOMINAL:
        return Role.VERB
    return Role.VERB if after in _OBJECTS and before not in _NOMINAL else Role.OTHER
