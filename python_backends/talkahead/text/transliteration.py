"""Latin writing of any kind to the ASCII that the rules and the lexicon know."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LETTERS_BY_NAME: dict[str, str] = {"µ": "micro", "Ω": "ohm", "π": "pi"}
"""Letters of other scripts that English text uses as signs."""
LATIN = "A-Za-zªºÀ-ÖØ-öø-ʯᴀ-ᶿḀ-ỿⱠ-Ɀꜣ-ꟊꬰ-ꭤﬀ-ﬆ" + "".join(LETTERS_BY_NAME)
"""Every letter that can be said, as the inside of a pattern's brackets."""

_SPECIAL = {
    "ß": "ss", "ẞ": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ð": "th", "þ": "th", "ł": "l", "đ": "d", "ħ": "h",
    "ı": "i", "ŋ": "ng", "ŧ": "t", "ə": "e", "ɛ": "e", "ɔ": "o",
}  # fmt: skip
_FLAT = str.maketrans(
    {
        **dict.fromkeys("‘’‛ʼʻ′´`", "'"),
        **dict.fromkeys("“”„‟«»″", '"'),
        **dict.fromkeys(
            "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u3000", " "
        ),
        **dict.fromkeys("\u2028\u2029", "\n"),
        **dict.fromkeys("‐‑‒", "-"),
        "º": "°",
        "μ": "µ",
        "\u2126": "Ω",
        "⁄": "/",
        "＄": "$",
        "％": "%",
    }
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_CACHED_WORDS = 4_096


def flatten(text: str) -> str:
    """The text with plain quotes, spaces, dashes, digits and compatibility letters; as long as it was."""
    return text if text.isascii() else _NOT_ASCII.sub(_flat_character, text.translate(_FLAT))


def _flat_character(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.digit(character))
    if not character.isalpha() or character in LETTERS_BY_NAME:
        return character
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 else character


@lru_cache(_CACHED_WORDS)
def as_ascii(word: str) -> str:
    """A word in ASCII letters: accents dropped, other Latin letters by what they sound like or are called."""
    if word.isascii():
        return word
    return "".join(_ascii_letter(character) for character in unicodedata.normalize("NFKD", word))


def _ascii_letter(character: str) -> str:
    if character.isascii():
        return character
    if not character.isalpha():
        return ""
    known = _SPECIAL.get(character.lower()) or LETTERS_BY_NAME.get(character)
    return known or _name_of_letter(character)


def _name_of_letter(character: str) -> str:
    """ "LATIN SMALL LETTER L WITH BELT" -> "l"; "LATIN LETTER SMALL CAPITAL G" -> "g"."""
    name = unicodedata.name(character, "").split(" WITH ")[0]
    return name.rpartition(" ")[2].lower()
