"""When words begin: it is the same however a segment is cut, and slips of the talker's eye do not count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talkahead.engine.windows import WindowPlan
from talkahead.engine.word_times import reached_rows, words_within
from talkahead.families.contracts import Words
from talkahead.types import WORD_BEGIN, Spoken

UNHEARD = 1


def words(*rows: int) -> Words:
    """A word of one character for each row that one begins at."""
    begins = [(place, place + 1, row, Spoken.WORD) for place, row in enumerate(rows)]
    return np.array(begins, np.int32)


def told(begins: Words, aligned: list[int], plan: WindowPlan) -> list[tuple[int, int]]:
    """The words of a segment that a plan cuts, by their first characters, and the frames they begin at."""
    found, start, chunk = [], plan.unheard, 0
    while cut := plan.cut(start, chunk, len(aligned), ended=True):
        known = np.array(aligned[: cut.stop + 1], np.int32)
        for word in words_within(begins, known, cut, plan.unheard).tolist():
            found.append((word[0], word[WORD_BEGIN] + cut.start))
        if cut.is_last:
            return found
        start, chunk = cut.stop, chunk + 1
    raise AssertionError("a segment has a last window")


@pytest.mark.parametrize(
    ("aligned", "reached"),
    [
        ([0, 0, 1, 2, 2], [0, 0, 1, 2, 2]),
        ([0, 4, 1, 2, 3], [0, 1, 1, 2, 3]),
        ([0, 1, 0, 0, 2], [0, 0, 0, 0, 2]),
        ([0, 3, 3, 0, 4], [0, 3, 3, 3, 4]),
        ([2], [2]),
    ],
    ids=["as it should be", "a look ahead", "a look too early", "a look back", "one frame"],
)
def test_a_segment_never_goes_back(aligned: list[int], reached: list[int]) -> None:
    assert reached_rows(np.array(aligned, np.int32)).tolist() == reached


def test_words_begin_with_the_first_frame_of_their_rows() -> None:
    plan = WindowPlan(1, 3, 2, 8, UNHEARD)
    aligned = [0, 0, 0, 1, 1, 2, 2, 5, 5, 5, 5]
    assert told(words(0, 2, 3, 5), aligned, plan) == [(0, UNHEARD), (1, 5), (2, 7), (3, 7)]


def test_what_is_never_reached_is_not_told() -> None:
    assert told(words(0, 2, 6), [0, 1, 2, 2, 2], WindowPlan(0, 0, 1, 4)) == [(0, 0), (1, 2)]


@given(
    st.lists(st.integers(0, 20), min_size=4, max_size=60),
    st.sets(st.integers(0, 20), min_size=1),
    st.integers(1, 9),
    st.integers(1, 30),
    st.integers(0, 3),
)
def test_it_does_not_matter_how_a_segment_is_cut(
    aligned: list[int], rows: set[int], first: int, chunk: int, lookahead: int
) -> None:
    begins = words(*sorted(rows))
    whole = told(begins, aligned, WindowPlan(1, 3, len(aligned), len(aligned), UNHEARD))
    assert told(begins, aligned, WindowPlan(1, lookahead, first, max(first, chunk), UNHEARD)) == whole
