"""Segments: their bounds, their places in the text, their order, whatever the text."""

from __future__ import annotations

import re
import string

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from talkahead.errors import BadRequest
from talkahead.text import MAX_SEGMENT_SYMBOLS, NUM_LEVELS, NUM_SYMBOLS, SYMBOLS, TextFrontend, TextSegment

LONG = "This is a sentence of ordinary length, with a clause or two, and nothing else to say. " * 50

WORDS = (
    "the",
    "cat",
    "sat,",
    "on",
    "a",
    "mat.",
    "$5",
    "3rd",
    "Dr.",
    "U.S.",
    "10:30",
    "is!",
    "it?",
    "-",
    "(",
    ")",
    "/",
)
ENGLISH = st.lists(st.sampled_from(WORDS)).map(" ".join)
ANYTHING = st.text(st.characters(codec="utf-8"), max_size=80)
SURROGATES = st.text(st.characters(), max_size=40)
KEYBOARD = st.text(string.printable, max_size=120)
ADVERSARIAL = st.text("aA1.,-/:@$%' \n#&x+=()é½²[]°\"hms", max_size=120)
MARKED = st.lists(st.sampled_from(["[", "](", "](/", "/)", "AH0 ", "T ", "a", "5", "spell)", " ", "."])).map(
    "".join
)
LINKS = st.lists(st.sampled_from(["[", "](x/y)", "a", "One.", "5)", "(", " ", "\n\n", "# "])).map("".join)
TEXT = MARKED | LINKS | ENGLISH | ANYTHING | SURROGATES | KEYBOARD | ADVERSARIAL
NOT_SAID = re.compile(r"[^A-Za-z\d]*")
MOST_SYMBOLS_PER_CHARACTER = 16
"""One character can be "to the power of"."""


def check(text: str, segments: list[TextSegment]) -> None:
    assert segments
    ends = [0, *(segment.char_end for segment in segments)]
    starts = [*(segment.char_start for segment in segments), len(text)]
    for end, start in zip(ends, starts, strict=True):
        assert end <= start and NOT_SAID.fullmatch(text, end, start)
    assert sum(len(segment.symbols) for segment in segments) <= MOST_SYMBOLS_PER_CHARACTER * len(text)
    for segment in segments:
        assert 0 <= segment.char_start < segment.char_end <= len(text)
        assert segment.words.strip(",.?! ")
        assert segment.words.isascii() and segment.words == segment.words.lower()
        assert segment.words[-1] in ",.?!"
        check_symbols(segment.symbols)


def check_symbols(symbols: npt.NDArray[np.int32]) -> None:
    assert symbols.dtype == np.int32 and symbols.shape[1] == 4
    assert 2 <= len(symbols) <= MAX_SEGMENT_SYMBOLS
    assert symbols[:, 0].min() > 0 and symbols[:, 0].max() < NUM_SYMBOLS
    assert symbols[:, 1:].min() >= 0 and symbols[:, 1:].max() < NUM_LEVELS
    assert SYMBOLS[symbols[-1, 0]] in ",.?!" and symbols[-1, 3] >= 2
    assert symbols[0].tolist()[1:3] in ([1, 1], [1, 3], [3, 1], [3, 3]) and symbols[0, 3] == 1


@settings(max_examples=300, deadline=None)
@given(TEXT)
def test_any_text_is_refused_or_spoken_in_order(frontend: TextFrontend, text: str) -> None:
    try:
        segments = frontend.segments(text)
    except BadRequest as refusal:
        assert refusal.field == "TEXT"
    else:
        check(text, segments)


@settings(max_examples=100, deadline=None)
@given(TEXT, st.sampled_from(["a", "7", "é", "Dr."]))
def test_text_with_something_to_say_is_never_empty(frontend: TextFrontend, text: str, said: str) -> None:
    """But for marks of pronunciation, of which some are refused."""
    printable = "".join(one for one in text if one.isprintable() and one.isascii() and one != "[")
    assert frontend.segments(f"{printable} {said}")


@example("PI")
@example("5\nvS, iaVs, etc.com")
@example("page V")
@example("page VI")
@example("on this page i wrote")
@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_spoken_words_are_their_own_normal_form(frontend: TextFrontend, text: str) -> None:
    """The corpus keeps the words alone and asks for their symbols again later."""
    try:
        segments = frontend.segments(text)
    except BadRequest:
        return
    for segment in segments:
        [again] = frontend.segments(segment.words)
        assert again.words == segment.words
        is_whole = segment.pause_s != 0.0 or len(segments) == 1  # else its words were said beside others
        if is_whole and "](" not in text:
            assert np.array_equal(again.symbols, segment.symbols)


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        "word " * 3_999,
        "7" * 20_000,
        "x" * 20_000,
        "1," * 10_000,
        "a." * 10_000,
        "(" * 10_000 + "a" * 10_000,
        "antidisestablishmentarianism, " * 600,
        "A B C " * 3_000,
        "é" * 20_000,
    ],
    ids=lambda text: text[:6],
)
def test_long_text_is_cut_and_nothing_is_lost(frontend: TextFrontend, text: str) -> None:
    segments = frontend.segments(text)
    check(text, segments)
    spoken = " ".join(segment.words for segment in segments)
    assert spoken.replace(",", "").replace(".", "").split() == [
        word.replace(".", "") for word in frontend.words(text)
    ]


def test_ten_thousand_digits_are_read_one_by_one(frontend: TextFrontend) -> None:
    segments = frontend.segments("1234567890" * 1_000)
    words = " ".join(segment.words for segment in segments).replace(",", "").replace(".", "").split()
    assert words[:10] == ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero"]
    assert len(words) == 10_000
    assert segments[-1].char_end == 10_000


def test_a_long_sentence_is_cut_at_its_clauses(frontend: TextFrontend) -> None:
    text = (
        "When the old captain finally came back from the long and dangerous voyage around the cape, the "
        "people of the town gathered at the harbour with flags and flowers and music, although hardly "
        "anybody there still remembered what he looked like or why he had left."
    )
    words = [segment.words for segment in frontend.segments(text)]
    assert len(words) == 2
    assert words[0].endswith(("around the cape,", "flowers and music,"))


def test_without_punctuation_the_cut_is_between_phrases(frontend: TextFrontend) -> None:
    text = "the dog ran quickly over a green hill and the cat slept under an old tree in the warm sun " * 6
    for segment in frontend.segments(text)[:-1]:
        assert segment.words.endswith(",")
        assert segment.words.split()[-1].strip(",") not in {"the", "a", "an", "in", "under", "over", "and"}


def test_a_long_text_begins_with_a_short_segment_and_is_read_lazily(frontend: TextFrontend) -> None:
    clauses = "as everybody who was there that evening knows, " * 30 + "it was late."
    first = next(frontend.iter_segments(clauses))
    assert len(first.symbols) <= 100
    assert first.char_end < 150


def test_offsets_point_at_what_is_spoken(frontend: TextFrontend) -> None:
    text = "  Hello, world!   It costs $5. "
    segments = frontend.segments(text)
    assert [text[s.char_start : s.char_end] for s in segments] == ["Hello, world!", "It costs $5."]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[AH0 ]([spell)", ["AH0 ]([spell)"]),
        ("[One. Two.](path) Three.", ["One.", "Two.](path)", "Three."]),
        ("![five](x.png), six", ["five](x.png), six"]),
        ("[One. )](path) Two.", ["One. )](path)", "Two."]),
        ("# [One](path)\nTwo", ["One](path)", "Two"]),
    ],
)
def test_where_a_link_leads_is_done_with_its_words(
    frontend: TextFrontend, text: str, parts: list[str]
) -> None:
    """Whoever goes on from `char_end` would else have the rest of the link read out."""
    segments = frontend.segments(text)
    assert [text[segment.char_start : segment.char_end] for segment in segments] == parts
    check(text, segments)


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("One.", [0.0]),
        ("One. Two? Three!", [0.35, 0.35, 0.0]),
        ("A title\n\nOne. Two.", [0.6, 0.35, 0.0]),
        ("One.\n\nTwo.\nThree.\n \t\r\nFour.\n\n", [0.6, 0.35, 0.6, 0.0]),
        ("The list:\n- one\n- two", [0.35, 0.35, 0.0]),
        ('"One."\n\n("Two.")', [0.6, 0.0]),
    ],
)
def test_pauses_follow_what_ended_the_segment(frontend: TextFrontend, text: str, pauses: list[float]) -> None:
    assert [segment.pause_s for segment in frontend.segments(text)] == pauses


def test_pauses_inside_a_sentence_are_those_of_its_clauses(frontend: TextFrontend) -> None:
    clauses = frontend.segments("as everybody who was there that evening knows, " * 10 + "it was late.")
    assert {segment.pause_s for segment in clauses[:-1]} == {0.12} and clauses[-1].pause_s == 0.0
    forced = frontend.segments("word " * 100 + "end. Next.")
    assert {segment.pause_s for segment in forced[:-2]} == {0.0}
    assert [segment.pause_s for segment in forced[-2:]] == [0.35, 0.0]
