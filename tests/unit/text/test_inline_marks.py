"""Words whose pronunciation or way of reading the client writes into the text."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.errors import BadRequest
from talkahead.text import SYMBOLS, TextFrontend

TOMAHTO = "T AH0 M AA1 T OW0"

READ_AS = {
    "[FBI](spell)": "f b i.",
    "my code: [sos-2](spell)": "my code, s o s two.",
    "[2024](digits)": "two zero two four.",
    "[555-0123](digits)": "five five five zero one two three.",
    "[1999](cardinal)": "one thousand nine hundred ninety nine.",
    "the [3](ordinal)": "the third.",
    "in [1066](year)": "in ten sixty six.",
    "on [3/4](date)": "on march fourth.",
    "[3/4/2025](date)": "march fourth twenty twenty five.",
}

ONLY_SIMILAR = {
    "See [site](http://x.com) now.": "see site now.",
    "[a](b)": "ay.",
    "[the $5 deal](https://x.y 'no')": "the five dollar deal, x dot y no.",
    '[$5 off](https://x.y "Title")': "five dollars off.",
    "![a cat](cat.png) sits": "a cat sits.",
    "[docs](/docs/intro/)": "docs.",
    "[about](/about/)": "about.",
    "[English](/EN/)": "english.",
    "[sic] (really)": "sic, really.",
    "[note](which see) done": "note, which see, done.",
    "array[i](x)": "array i.",
    "[](abc)": "abc.",
}

REFUSED = {
    "[x](/T AH M/)": ("'AH'", "vowels with a stress of 0, 1 or 2"),
    "say [x](/T AH3 M/)": ("'AH3'", "in the pronunciation of 'x'"),
    "[x](/t ah0 m/)": ("'t'", "B CH D"),
    "[tomato](/təˈmeɪtoʊ/)": ("'təˈmeɪtoʊ'", "AA AE AH"),
    "[x](/θ/)": ("'θ'", "ZH"),
    "[x](/AH/)": ("'AH'", "vowels with a stress"),
    "[x](/ /)": ("0 phonemes", "1 to 60 phonemes"),
    f"[x](/{'AH0 ' * 61}/)": ("61 phonemes", "1 to 60 phonemes"),
    "[cat](digits)": ("[cat](digits)", "digits without letters"),
    "[5](year)": ("[5](year)", "three or four digits"),
    "[3.5](ordinal)": ("[3.5](ordinal)", "a whole number"),
    "[13/13](date)": ("[13/13](date)", "month/day"),
}


def phonemes(frontend: TextFrontend, text: str) -> str:
    return " ".join(SYMBOLS[index] for segment in frontend.segments(text) for index in segment.symbols[:, 0])


def test_a_word_is_spoken_with_the_phonemes_that_it_is_given(frontend: TextFrontend) -> None:
    [segment] = frontend.segments(f"I say [tomato](/{TOMAHTO}/).")
    assert segment.words == "i say tomato."
    assert phonemes(frontend, f"I say [tomato](/{TOMAHTO}/).") == f"AY1 S EY1 {TOMAHTO} ."


def test_given_phonemes_have_the_prosody_of_the_word(frontend: TextFrontend) -> None:
    """As long as the lexicon's own, so all levels must be equal."""
    [marked] = frontend.segments(f"The [tomato](/{TOMAHTO}/) of the garden, is it red?")
    [plain] = frontend.segments("The tomato of the garden, is it red?")
    assert np.array_equal(marked.symbols[:, 1:], plain.symbols[:, 1:])
    assert not np.array_equal(marked.symbols[:, 0], plain.symbols[:, 0])


def test_neighbours_hear_the_given_phonemes(frontend: TextFrontend) -> None:
    assert phonemes(frontend, "the [herb](/ER1 B/)").startswith("DH IY0 ER1")
    assert phonemes(frontend, "[the](/DH AH0/) apple").startswith("DH AH0 AE1")


def test_marks_survive_cutting_and_keep_their_places(frontend: TextFrontend) -> None:
    mark = f"[tomato](/{TOMAHTO}/)"
    text = f"Of all that grows there, {mark} is what I like, " * 20
    segments = frontend.segments(text)
    assert len(segments) > 5
    assert phonemes(frontend, text).count(TOMAHTO) == 20
    for segment in segments:
        written = text[segment.char_start : segment.char_end]
        assert segment.words.count("tomato") == written.count(mark)


@pytest.mark.parametrize(("text", "words"), READ_AS.items())
def test_a_word_is_read_in_the_way_it_asks_for(frontend: TextFrontend, text: str, words: str) -> None:
    [segment] = frontend.segments(text)
    assert segment.words == words


@pytest.mark.parametrize(("text", "words"), ONLY_SIMILAR.items())
def test_what_only_looks_like_a_mark_is_spoken(frontend: TextFrontend, text: str, words: str) -> None:
    [segment] = frontend.segments(text)
    assert segment.words == words


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_a_mark_that_cannot_be_spoken_is_refused_before_the_first_segment(
    frontend: TextFrontend, text: str, message: tuple[str, str]
) -> None:
    with pytest.raises(BadRequest) as refusal:
        frontend.iter_segments(f"First. {text}")
    assert refusal.value.field == "TEXT"
    assert all(part in str(refusal.value) for part in message)
