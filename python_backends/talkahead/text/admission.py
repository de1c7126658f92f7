"""What a client's text must be to be spoken; everything else is refused with a reason."""

from __future__ import annotations

import re
import unicodedata
from typing import NoReturn

from talkahead.errors import BadRequest
from talkahead.text.inline_marks import FIELD, check_marks, refuse_marks
from talkahead.text.transliteration import LATIN, flatten
from talkahead.text.written_forms import VULGAR_FRACTIONS

MAX_CHARACTERS = 20_000
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_SPEAKABLE = re.compile(rf"[{LATIN}\d{''.join(VULGAR_FRACTIONS)}]")
_OTHER_LETTER = re.compile(rf"[^\W\d_{LATIN}]")
_WORD = re.compile(r"\S{1,40}")
_SCRIPTS = {"CJK": "Han", "KANGXI": "Han", "IDEOGRAPHIC": "Han"}
_END_OF_SCRIPT = re.compile(r" (?:CAPITAL|SMALL|LETTER|SYLLABLE|VOWEL|DIGIT|SIGN|MODIFIER|FINAL|LIGATURE).*")


def decode_text(raw: bytes) -> str:
    """The text of a STRING tensor.

    Raises:
        BadRequest: it is not UTF-8.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {error.start} is 0x{raw[error.start]:02x}"
        raise BadRequest(
            FIELD, raw[max(0, error.start - 10) : error.start + 10], f"valid UTF-8 ({place})"
        ) from None


def admit(text: str) -> None:
    """Returns if the text can be spoken.

    Raises:
        BadRequest: it is empty, too long, has control characters, nothing to say, a script that is not
        read, or a mark of `inline_marks` that cannot be spoken.
    """
    _check_form(text)
    flat = flatten(text)
    check_marks(flat)
    if not text.isascii():
        _refuse_other_scripts(flat)
    if not _SPEAKABLE.search(flat):
        _refuse_silence(text)


def admit_as_written(text: str) -> None:
    """Returns if the text can be read out by a talker that is given its characters, in whatever script.

    Raises:
        BadRequest: it is empty, too long, has control characters, nothing to say, or a mark of
        `inline_marks`, which would be read out.
    """
    _check_form(text)
    refuse_marks(text)
    if not any(character.isalnum() for character in text):
        _refuse_silence(text)


def _check_form(text: str) -> None:
    if not text.strip():
        raise BadRequest(FIELD, text, f"1 to {MAX_CHARACTERS:,} characters with at least one word or number")
    if len(text) > MAX_CHARACTERS:
        raise BadRequest(FIELD, text, f"1 to {MAX_CHARACTERS:,} characters")
    _refuse_control_characters(text)


def _refuse_silence(text: str) -> NoReturn:
    only = "emoji and symbols" if any(unicodedata.category(mark) == "So" for mark in text) else "punctuation"
    raise BadRequest(FIELD, text, f"text with at least one word or number, not only {only}")


def _refuse_control_characters(text: str) -> None:
    found = _CONTROL.search(text)
    if found:
        place = f"this one, U+{ord(found[0]):04X}, is character {found.start()}"
        raise BadRequest(
            FIELD, found[0], f"text without control characters other than tab and line break ({place})"
        )


def _refuse_other_scripts(text: str) -> None:
    for found in _OTHER_LETTER.finditer(text):
        if unicodedata.category(found[0])[0] == "L":
            start = max(text.rfind(" ", 0, found.start()) + 1, found.start() - 20)
            word = _WORD.search(text, start)
            script = _script(found[0])
            allowed = f"text in Latin letters (this word is in {script} script, which the voices cannot say)"
            raise BadRequest(FIELD, word[0] if word else found[0], allowed)


def _script(letter: str) -> str:
    """The name of a letter's script, as Unicode's character names give it."""
    name = _END_OF_SCRIPT.sub("", unicodedata.name(letter, "UNKNOWN"))
    first = name.split(" ")[0].split("-")[0]
    return _SCRIPTS.get(first, name.title() if name.isalpha() else first.title())
