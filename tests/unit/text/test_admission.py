"""Text that is refused, and what the refusal says."""

from __future__ import annotations

import pytest
from talkahead.errors import BadRequest
from talkahead.text import TextFrontend, decode_text

REFUSED = {
    "": "1 to 20,000 characters",
    " \n\t ": "1 to 20,000 characters",
    "a" * 20_001: "1 to 20,000 characters",
    "a bell \x07 rings": "U+0007, is character 7",
    "nul\x00": "U+0000",
    "next\x85line": "U+0085",
    "lone \ud800": "U+D800",
    "?!... -- (),": "not only punctuation",
    "😀🎉": "not only emoji",
    "→ ★": "not only emoji and symbols",
    "hello Привет мир": "Cyrillic",
    "漢字": "Han",
    "こんにちは": "Hiragana",
    "カタカナ": "Katakana",
    "안녕": "Hangul",
    "مرحبا": "Arabic",
    "שלום": "Hebrew",
    "γειά": "Greek",
    "नमस्ते": "Devanagari",
    "สวัสดี": "Thai",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_what_cannot_be_said_is_refused_with_the_reason(
    frontend: TextFrontend, text: str, reason: str
) -> None:
    with pytest.raises(BadRequest) as refusal:
        frontend.iter_segments(text)  # refused by the call itself, before any segment is asked for
    assert refusal.value.field == "TEXT"
    assert reason in str(refusal.value)


def test_the_offending_word_is_named(frontend: TextFrontend) -> None:
    with pytest.raises(BadRequest, match="'Привет,'"):
        frontend.segments("He said Привет, and left.")


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "5",
        "😀 ok",
        "a\tb\r\nc",
        "é",
        "𝐁",
        "½",
        "١٢٣",
        "a" * 20_000,
        "\ufeffhi",
        "5 µm at 3 Ω",
        "e\u0301",
    ],
)
def test_what_can_be_said_is_not_refused(frontend: TextFrontend, text: str) -> None:
    assert frontend.segments(text)


def test_bytes_are_decoded_or_refused() -> None:
    assert decode_text("naïve".encode()) == "naïve"
    with pytest.raises(BadRequest, match=r"valid UTF-8 \(byte 3 is 0xff\)"):
        decode_text(b"abc\xff")
