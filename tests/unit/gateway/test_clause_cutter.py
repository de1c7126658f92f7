"""Where text is cut, and that nothing is lost or said twice however it comes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talkahead_gateway.clause_cutter import (
    CLAUSE_PAUSE_S,
    MAX_CHARACTERS,
    MIN_CHARACTERS,
    SENTENCE_PAUSE_S,
    ClauseCutter,
    pause_after_s,
    says_something,
)

PIECES = st.sampled_from(
    [
        *(
            "Hello",
            "there",
            "Dr",
            "No",
            "etc",
            "3",
            "14",
            "e.g",
            "U.S",
            "I",
            "naïve",
            "\U0001f600",
            "你好",
            "_",
        ),
        *(" ", "  ", "\n", "\n\n", "\t", ".", "...", "!", "?", "?!", ",", ";", ":", "…", "。", "-", " - "),
        *("(", ")", "[", "]", '"', "”", "'", "](spell)", "/T AH0/", "x" * 120, "word " * 30),
    ]
)
TEXTS = st.lists(PIECES, max_size=60).map("".join)


def cut(pieces: Sequence[str]) -> tuple[list[str], str]:
    """All clauses, and the rest."""
    cutter = ClauseCutter()
    return [clause for piece in pieces for clause in cutter.add(piece)], cutter.flush()


def clauses(text: str) -> list[str]:
    whole, rest = cut([text])
    return [*whole, rest] if rest else whole


@given(TEXTS, st.lists(st.integers(0, 2_000), max_size=30))
def test_however_it_comes_it_is_cut_alike_and_nothing_is_lost(text: str, places: list[int]) -> None:
    ends = sorted({*(place for place in places if place < len(text)), len(text)})
    starts = [0, *ends[:-1]]
    whole, rest = cut([text])
    assert "".join(whole) + rest == text
    assert cut([text[start:end] for start, end in zip(starts, ends, strict=True)]) == (whole, rest)
    assert cut(list(text)) == (whole, rest)


@given(st.lists(st.tuples(TEXTS, st.booleans()), max_size=8))
def test_a_flush_gives_what_is_there_and_nothing_twice(messages: list[tuple[str, bool]]) -> None:
    cutter = ClauseCutter()
    given_back = []
    for text, is_flushed in messages:
        given_back += cutter.add(text)
        if is_flushed:
            given_back.append(cutter.flush())
            assert cutter.flush() == ""
    assert "".join([*given_back, cutter.flush()]) == "".join(text for text, _ in messages)


@given(TEXTS)
def test_clauses_are_bounded_and_say_something(text: str) -> None:
    whole, rest = cut([text])
    assert all(len(clause) <= MAX_CHARACTERS for clause in whole) and len(rest) < MAX_CHARACTERS
    assert all(says_something(clause) for clause in whole if len(clause) < MAX_CHARACTERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there. How are you? Fine! ", ["Hello there. ", "How are you? ", "Fine! "]),
        ('He said "Stop!" Then he left. ', ['He said "Stop!" ', "Then he left. "]),
        ("Wait... what?! Oh… no. ", ["Wait... ", "what?! ", "Oh… ", "no. "]),
        ("Dr. Smith met J. R. Jones in the U.S. today. ", None),
        ("Fruit, e.g. apples. ", None),
        ("See No. 5. ", None),
        ("No. We do not. ", ["No. ", "We do not. "]),
        ("It is 3.14. Or 1,000.5 then. ", ["It is 3.14. ", "Or 1,000.5 then. "]),
        ("1. Mix it. 2. Bake it. ", ["1. Mix it. ", "2. Bake it. "]),
        ("In 1990. Then ", ["In 1990. ", "Then "]),
        ("Go to example.com. Then click. ", ["Go to example.com. ", "Then click. "]),
        ("First line\nsecond line\n\nThird", ["First line\nsecond line\n\n", "Third"]),
        ("Well, yes, of course. ", None),
        ("[Hi. You](spell) there. ", None),
        ("你好。世界！好", ["你好。", "世界！", "好"]),
        ('... "Hello. ', ['... "Hello. ']),
        ("!!! ", None),
    ],
)
def test_where_it_is_cut(text: str, expected: list[str] | None) -> None:
    """None: it is one clause."""
    assert clauses(text) == (expected or [text])


def test_a_long_sentence_is_cut_at_a_comma_and_a_short_one_is_not() -> None:
    long = "Thank you for calling the library of our town, how can I help you"
    assert clauses(long) == ["Thank you for calling the library of our town, ", "how can I help you"]
    assert len("Thank you for calling the library of our town,") >= MIN_CHARACTERS > len("Thank you,")
    assert clauses("Thank you, how can I help you") == ["Thank you, how can I help you"]


@pytest.mark.parametrize(
    ("written", "following"),
    [("It is 3.", "14"), ("Stop!", '"'), ("Yes, it is what I have always told to you,", "000")],
)
def test_a_mark_alone_is_not_sure(written: str, following: str) -> None:
    cutter = ClauseCutter()
    assert cutter.add(written) == []
    [clause] = cutter.add(f"{following}. Then")
    assert clause == f"{written}{following}. "


def test_after_some_a_number_decides() -> None:
    cutter = ClauseCutter()
    assert cutter.add("I said no. ") == []
    assert cutter.add("Th") == ["I said no. "]
    assert cutter.add("is is no. ") == [] and cutter.add("5") == []


def test_text_without_marks_is_cut_between_words() -> None:
    whole, rest = cut(["word " * 200])
    assert len(whole) == 3 and all(clause.endswith("word ") for clause in whole) and rest.startswith("word ")
    whole, rest = cut(["x" * 700])
    assert [len(clause) for clause in whole] == [MAX_CHARACTERS] * 2 and len(rest) == 700 - 2 * MAX_CHARACTERS


@pytest.mark.parametrize(
    ("clause", "pause_s"),
    [
        ("Yes. ", SENTENCE_PAUSE_S),
        ('"Yes!" ', SENTENCE_PAUSE_S),
        ("well, ", CLAUSE_PAUSE_S),
        ("so ", 0.0),
        ("", 0.0),
        ('"', 0.0),
    ],
)
def test_pauses(clause: str, pause_s: float) -> None:
    assert pause_after_s(clause) == pause_s
