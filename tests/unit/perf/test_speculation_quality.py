"""Rows against plain decoding sentence by sentence; endings; swapped tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from perf.speculation.evaluation import Ending, Evaluation
from perf.speculation.quality import Quality, Speech, Spoken, spans
from perf.speculation.token_swap import TokenSwap

HEARD = Evaluation(duration_s=2.0, teacher_s=2.0, edits=0, words=8, heard="", p808=4.0, tail_s=0.1)


def _spoken(
    edits: int, digest: str = "", words: int = 10, ending: str = "right", p808: float = 4.0
) -> Spoken:
    return Spoken(digest, 41, 20, 2.0, edits, words, p808, ending)


def _speech(*spoken: Spoken) -> Speech:
    return Speech(spoken, num_heard=len(spoken), swapped=None)


def test_differences_are_taken_in_pairs() -> None:
    """Sentences differ much, methods by one edit in each: unpaired, the interval would hold 0."""
    plain = [_spoken(index % 9, f"p{index}") for index in range(90)]
    worse = [replace(one, edits=one.edits + 1, digest="") for one in plain]
    found = Quality.of(_speech(*worse), _speech(*plain))
    assert found.difference == pytest.approx(10.0)
    assert found.low == pytest.approx(10.0) and found.high == pytest.approx(10.0)
    shuffled = Quality.of(_speech(*worse[1:], worse[0]), _speech(*plain))
    assert shuffled.difference == pytest.approx(10.0) and shuffled.low < 9.0 < 11.0 < shuffled.high


def test_fewer_sentences_are_compared_with_plain_decoding_of_the_same() -> None:
    plain = _speech(_spoken(0, "a"), _spoken(2, "b"), _spoken(10, "c", ending="never", p808=9.0))
    own = _speech(_spoken(1, "a"), _spoken(2, "x", ending="cut", p808=5.0))
    found = Quality.of(own, plain)
    assert (found.sentences, found.word_errors, found.plain_word_errors) == (2, 15.0, 10.0)
    assert (found.wrong_endings, found.plain_wrong_endings) == (50.0, 0.0)
    assert (found.p808, found.plain_p808) == (4.5, 4.0)
    assert found.same_tokens == 1 and found.endings["cut"] == 1
    assert found.committed_per_step == 2.0
    with pytest.raises(ValueError):
        Quality.of(plain, own)


@pytest.mark.parametrize(
    ("heard", "ending"),
    [
        (HEARD, Ending.RIGHT),
        (replace(HEARD, duration_s=1.5), Ending.SHORT),
        (replace(HEARD, duration_s=2.6), Ending.LONG),
        (replace(HEARD, tail_s=0.0), Ending.CUT),
        (replace(HEARD, tail_s=0.5), Ending.LATE),
    ],
)
def test_endings(heard: Evaluation, ending: Ending) -> None:
    assert heard.ending(has_ended=True) is ending
    assert heard.ending(has_ended=False) is Ending.NEVER


def test_work_is_cut_into_runs_without_a_gap() -> None:
    assert list(spans(10, 4)) == [(0, 2), (2, 5), (5, 8), (8, 10)]
    assert [stop - start for start, stop in spans(2, 4)] == [1, 1]


ANGLES = torch.deg2rad(torch.tensor([0.0, 5.0, 10.0, 90.0, 2.0]))
EMBEDDINGS = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)
EOS = 4


def test_tokens_give_way_to_their_neighbours_alone() -> None:
    """Within 6 degrees: 0 and 1, 1 and 2. 3 is alone; 4, as near to 0 as any, is the end of speech."""
    swap = TokenSwap(EMBEDDINGS, float(torch.deg2rad(torch.tensor(6.0)).cos()), EOS)
    said = [0, 1, 2, 3] * 50 + [EOS]
    other = swap.apply(said, seed=1)
    pairs = set(zip(said, other, strict=True))
    assert pairs == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 3), (EOS, EOS)}
    assert swap.apply(said, seed=1) == other != swap.apply(said, seed=2)
    assert swap.mean_size == 1 + 4 / 5
