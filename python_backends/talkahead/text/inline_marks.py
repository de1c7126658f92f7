"""Marks that a client writes into the text to say how a word is spoken.

`[tomato](/T AH0 M EY1 T OW0/)` gives a word its phonemes: ARPAbet in capitals, parted by spaces, each vowel
with its stress (0 none, 1 primary, 2 secondary). They are spoken as written, with the prosody of any other
word.

`[FBI](spell)` gives a word a way of reading, one of:

| way | example | spoken |
|---|---|---|
| spell | `[sos2](spell)` | s o s two |
| digits | `[2024](digits)` | two zero two four |
| cardinal | `[1999](cardinal)` | one thousand nine hundred ninety nine |
| ordinal | `[3](ordinal)` | third |
| year | `[1066](year)` | ten sixty six |
| date | `[3/4](date)` | march fourth |

Anything else in this shape is a Markdown link, of which the text in brackets is spoken. So an unknown way is
no error (`[a](b)`), nor is a path without spaces (`[about](/about/)`), but phonemes that are none are one,
and so is a text that a known way cannot read (`[cat](digits)`).
"""

from __future__ import annotations

import re

from talkahead.errors import BadRequest
from talkahead.text.symbols import CONSONANTS, STRESSES, VOWELS
from talkahead.text.transliteration import LATIN

FIELD = "TEXT"
MAX_PHONEMES = 60
"""Of one word."""

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3}){1,4}|\d{1,15}")
_WAYS: dict[str, tuple[re.Pattern[str], str]] = {
    "spell": (re.compile(rf".*[{LATIN}\d].*"), "letters or digits"),
    "digits": (re.compile(rf"[^{LATIN}]*\d[^{LATIN}]*"), "digits without letters"),
    "cardinal": (_NUMBER, "a whole number of at most 15 digits"),
    "ordinal": (_NUMBER, "a whole number of at most 15 digits"),
    "year": (re.compile(r"[1-9]\d{2,3}"), "a year of three or four digits"),
    "date": (
        re.compile(r"(?:0?[1-9]|1[0-2])/(?:0?[1-9]|[12]\d|3[01])(?:/[1-9]\d{3})?"),
        "month/day or month/day/year, as 3/4 or 3/4/2025",
    ),
}
"""Ways of reading to what they can read."""

_TEXT = rf"(?=[^\[\]\n]{{0,200}}?[{LATIN}\d])[^\[\]\n]{{1,200}}"
_ONE_PHONEME = rf"(?:{'|'.join(VOWELS + CONSONANTS)})\d?/"
PRONUNCIATION = (
    rf"\[(?P<pr_text>{_TEXT})\]"
    rf"\(/(?=[^/()\n]{{0,1000}}[ \u0080-\U0010ffff]|{_ONE_PHONEME})(?P<pr_phonemes>[^/()\n]{{1,1000}})/\)"
)
"""Phonemes have spaces, or letters of another alphabet, or are one; a path has none of these."""
SAY_AS = rf"\[(?P<sa_text>{_TEXT})\]\((?P<sa_way>{'|'.join(_WAYS)})\)"
LINK = rf"!?\[(?P<li_text>{_TEXT})\]\([^\s()]{{0,300}}(?:\s\"[^\"\n]{{0,100}}\")?\)"

_MARK = re.compile(f"{PRONUNCIATION}|{SAY_AS}")
_PHONEMES = frozenset((*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in STRESSES)))


def check_marks(flat: str) -> None:
    """Returns if every mark of the text can be spoken.

    Raises:
        BadRequest: one has a phoneme that is none, or a text that cannot be read in the way it asks for.
    """
    for match in _MARK.finditer(flat):
        if match["sa_way"]:
            pattern, readable = _WAYS[match["sa_way"]]
            if not pattern.fullmatch(match["sa_text"]):
                raise BadRequest(FIELD, match[0], f"for ({match['sa_way']}), {readable} in the brackets")
        else:
            _check_phonemes(match["pr_text"], match["pr_phonemes"].split())


def refuse_marks(text: str) -> None:
    """Returns if the text has no marks; raises BadRequest for the first one."""
    if found := _MARK.search(text):
        raise BadRequest(FIELD, found[0], "text without such marks: this talker reads it as it is written")


def _check_phonemes(word: str, phonemes: list[str]) -> None:
    for phoneme in phonemes:
        if phoneme not in _PHONEMES:
            vowels, consonants = " ".join(VOWELS), " ".join(CONSONANTS)
            allowed = f"vowels with a stress of 0, 1 or 2 ({vowels}) and consonants ({consonants})"
            raise BadRequest(FIELD, phoneme, f"in the pronunciation of {word!r}, {allowed}")
    if not 1 <= len(phonemes) <= MAX_PHONEMES:
        allowed = f"in the pronunciation of {word!r}, 1 to {MAX_PHONEMES} phonemes"
        raise BadRequest(FIELD, f"{len(phonemes)} phonemes", allowed)
