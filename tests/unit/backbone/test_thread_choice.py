"""How many threads a talker is given, by what its steps take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import pytest
import torch
from talkahead.backbone import thread_choice
from talkahead.backbone.backbone import Backbone
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.thread_choice import ThreadChoice, Threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    monkeypatch.setattr(thread_choice, "most_threads", lambda: 8)
    yield
    torch.set_num_threads(threads)


class SlowTalker:
    """Its steps take what they are said to, by threads; the clock is its own."""

    device, hidden_size = CPU, 4

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self._seconds, self.now = seconds, 0.0
        self.is_free = True

    def clock(self) -> float:
        return self.now

    def prefill(self, slots: list[int], prompts: torch.Tensor, lengths: list[int]) -> None:
        self.is_free = False

    def score(self, tree: object, rows: object) -> None:
        self.now += self._seconds[torch.get_num_threads()]

    def release(self, slot: int) -> None:
        self.is_free = True


class NativeTalker(SlowTalker, NativeDecoder):
    """Its prompts take what they are said to, too."""

    def __init__(self, seconds: Mapping[int, float], reading: Mapping[int, float]) -> None:
        SlowTalker.__init__(self, seconds)
        self._reading = reading

    def share(self, threads: int, prompts: int | None = None) -> None:
        self.shared = Threads(threads, prompts or threads)

    def prefill(self, slots: list[int], prompts: torch.Tensor, lengths: list[int]) -> None:  # type: ignore[override]
        super().prefill(slots, prompts, lengths)
        self.now += self._reading[self.shared.prompts]


def settled(seconds: Mapping[int, float], told: int | None = None, tokens_per_s: float = 50.0) -> int:
    talker, choice = SlowTalker(seconds), ThreadChoice(told)
    choice.claim(CPU)
    choice.settle(cast(Backbone, talker), tokens_per_s, talker.clock)
    assert talker.is_free
    return torch.get_num_threads()


def test_a_small_talker_leaves_the_other_cores_alone() -> None:
    assert settled({1: 0.004}) == 1


def test_a_large_one_takes_as_many_as_make_it_faster() -> None:
    assert settled({1: 0.040, 2: 0.024, 4: 0.016, 8: 0.010}) == 8
    assert settled({1: 0.040, 2: 0.024, 4: 0.022, 8: 0.010}) == 2
    assert settled({1: 0.040, 2: 0.039}) == 1


def test_no_more_than_enough_are_taken() -> None:
    assert settled({1: 0.008, 2: 0.004}) == 2


def test_what_is_told_is_taken() -> None:
    assert settled({}, told=3) == 3


@pytest.mark.parametrize(("seconds", "prompts"), [(0.1, 8), (0.005, 1)])
def test_long_prompts_have_all_cores(seconds: float, prompts: int) -> None:
    talker, choice = NativeTalker({1: 0.004}, {1: seconds}), ThreadChoice(None)
    choice.claim(CPU)
    found = choice.settle(cast(Backbone, talker), 50.0, talker.clock)
    assert found == talker.shared == Threads(steps=1, prompts=prompts) and torch.get_num_threads() == 1
    assert talker.is_free


def test_a_device_has_one() -> None:
    ThreadChoice(None).claim(torch.device("cuda:0"))
    assert torch.get_num_threads() == 1
    ThreadChoice(2).claim(torch.device("cuda:0"))
    assert torch.get_num_threads() == 2
