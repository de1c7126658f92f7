"""Where words are: each character of a text in at most one, in order, and as they are written."""

from __future__ import annotations

from itertools import pairwise

import pytest
from talkahead.text import TextFrontend
from talkahead.text.frontend import TextSegment


@pytest.fixture(scope="module")
def frontend() -> TextFrontend:
    return TextFrontend()


def written(text: str, segment: TextSegment) -> list[str]:
    """Words as they are written, and pauses in brackets."""
    cut = ((text[place.start : place.end], place.is_pause) for place in segment.places)
    return [f"<{part}>" if is_pause else part for part, is_pause in cut]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", ["Hello", "<,>", "world", "<!>"]),
        ("No stop", ["No", "stop", "<>"]),
        ("It costs $45.50 at 10:30.", ["It", "costs", "$45.50", "at", "10:30", "<.>"]),
        ("Dr. Smith's R&D dept.", ["Dr", "Smith's", "R&D", "dept", "<.>"]),
        ("On March 3rd, 1999.", ["On", "March", "<>", "3rd,", "1999", "<.>"]),
        ("a well-known word—indeed", ["a", "well-known", "word", "<—>", "indeed", "<>"]),
        ("Ask [Bell](/B EH1 L/) or  see https://a.com/b.", [
            *("Ask", "[Bell](/B EH1 L/)", "or", "see", "https://a.com/b", "<.>"),
        ]),
        ("(She said so.)", ["She", "said", "so", "<.>"]),
    ],
)  # fmt: skip
def test_words_are_those_that_are_written(frontend: TextFrontend, text: str, expected: list[str]) -> None:
    (segment,) = frontend.segments(text)
    assert written(text, segment) == expected


def test_words_begin_where_their_symbols_do(frontend: TextFrontend) -> None:
    text = "Dr. Smith paid $45.50 for 3 kg on March 3rd, 1999; didn't he? 1234567 NASA's, too."
    for segment in frontend.segments(text):
        starts = {0}
        for word in segment.spoken:
            starts.add(max(starts) + len(word.symbols))
        symbols = [place.symbol for place in segment.places]
        assert symbols[0] == 0 and set(symbols) <= starts
        assert all(one < other for one, other in pairwise(symbols))
        edges = [edge for place in segment.places for edge in (place.start, place.end)]
        assert edges == sorted(edges) and segment.char_start <= edges[0] and edges[-1] <= segment.char_end
