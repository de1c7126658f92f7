from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from talkahead.config import RequestOptions

from perf.talker import Comparison, Prompt, compare


class _Counting:
    """A talker that speaks 10 frames per prompt and remembers what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.is_closed = False

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> int:
        self.batches.append([len(prompt) for prompt in prompts])
        return 10 * len(prompts)

    def close(self) -> None:
        self.is_closed = True


def test_both_get_the_same_batches_by_turns_after_a_warm_up() -> None:
    prompts = [np.zeros((length, 2), np.float32) for length in (1, 2, 3)]
    engine, generate = _Counting(), _Counting()
    comparison = compare((engine, generate), prompts, RequestOptions(), 2, "float32", repeats=3)
    assert engine.batches == generate.batches == [[2, 3], [1, 2], [3, 1], [2, 3]]
    assert engine.is_closed and generate.is_closed
    for runs in (comparison.engine, comparison.generate):
        assert [run.frames for run in runs] == [20, 20, 20]
    assert comparison.ratio > 0 and comparison.row()["repeats"] == "3"


def test_the_ratio_is_the_median_of_pairs() -> None:
    row = Comparison(4, "float32", 1000.4, 200.2, 5.0, [], []).row()
    assert (row["engine"], row["generate"], row["ratio"]) == ("1000 frames/s", "200 frames/s", "5.00")
    assert pytest.approx(5.0) == float(row["ratio"])
