"""Steps that are taken one after the other in C are those that are taken one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from crowd import Crowd, Speaker
from talkahead.backbone.llama import Llama
from talkahead.engine.decode_step import Drawn
from talkahead.engine.native_steps import Bell, Stop
from test_mixed_methods import LENIENT, MATCH, anew, said, speakers_of
from tiny_talker import POSITIONS, make_llama

ROWS, LONG_S = 4, 60.0


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama()


class NativeCrowd(Crowd):
    """All in C, a step at a time."""

    def __init__(self, llama: Llama) -> None:
        super().__init__(llama, ROWS, torch.float32)

    def join(self, speakers: Sequence[Speaker]) -> None:
        super().join(speakers)
        for one in speakers:
            self.table.wake(one.slot, POSITIONS - len(one.prompt))

    def speak(self, speakers: Sequence[Speaker]) -> None:
        self.join(speakers)
        while self.speaking:
            self.run(self.speaking)
            self.leave_ended()


class Striding(NativeCrowd):
    """Many steps at a time."""

    def __init__(self, llama: Llama) -> None:
        super().__init__(llama)
        self.bell = Bell()
        self.num_calls = self.num_steps = 0

    def stride(self, seconds: float = LONG_S, tokens: Sequence[int] | None = None) -> Drawn:
        slots = [one.slot for one in self.speaking]
        until = self.table.tokens_left(slots) if tokens is None else np.array(tokens)
        return self.step.run(slots, Stop(until, self.bell, seconds))

    def run(self, speakers: Sequence[Speaker]) -> None:
        drawn = self.stride()
        self.num_calls, self.num_steps = self.num_calls + 1, self.num_steps + len(drawn.by_step)
        before_last = drawn.by_step[:-1].sum(axis=0)
        for tokens, count in zip(drawn.tokens[..., 0], before_last, strict=True):
            assert self.backbone.eos not in tokens[:count]
        self.table.add(drawn)


@pytest.mark.parametrize("wish", MATCH + LENIENT, ids=str)
def test_they_say_and_count_what_single_steps_do(llama: Llama, wish: dict[str, object]) -> None:
    one_by_one, behind = NativeCrowd(llama), Striding(llama)
    streams = speakers_of(wish)[:ROWS]
    others = anew(streams)
    one_by_one.speak(streams)
    behind.speak(others)
    assert said(others) == said(streams) and any(one.has_ended for one in streams)
    assert [one.totals for one in others] == [one.totals for one in streams]
    assert behind.telemetry.told == one_by_one.telemetry.told
    assert behind.telemetry.committed == one_by_one.telemetry.committed
    assert behind.num_steps > 2 * behind.num_calls


@pytest.fixture
def plain(llama: Llama) -> Striding:
    """Two rows, plainly, that have far to go."""
    crowd = Striding(llama)
    short = [replace(one, prompt=one.prompt[:2]) for one in speakers_of({})]
    crowd.join([one for one in short if one.options.temperature > 0][:2])
    return crowd


def test_without_a_stop_there_is_one(plain: Striding) -> None:
    drawn = plain.step.run([one.slot for one in plain.speaking])
    assert drawn.by_step.tolist() == [[1, 1]] and drawn.tokens.shape == (2, 1, 1)


def test_they_stop_where_the_first_row_is_due(plain: Striding) -> None:
    drawn = plain.stride(tokens=[7, 3])
    assert drawn.by_step.tolist() == [[1, 1]] * 3 and drawn.counts.tolist() == [3, 3]


def test_they_stop_when_the_bell_is_rung(plain: Striding) -> None:
    plain.bell.ring()
    assert len(plain.stride().by_step) == 1
    plain.bell.silence()
    assert len(plain.stride(tokens=[4, 4]).by_step) == 4


def test_they_stop_when_the_time_is_over(plain: Striding) -> None:
    assert len(plain.stride(seconds=0.0).by_step) == 1


def test_they_go_on_with_other_rows_and_with_single_steps_between(llama: Llama) -> None:
    """What lies by slot is brought back whenever the rows change."""
    streams = speakers_of(MATCH[4])[:ROWS]
    alone, mixed = anew(streams), Striding(llama)
    NativeCrowd(llama).speak_in_turn(alone)
    mixed.join(streams)
    turn = 0
    while here := mixed.speaking:
        some = [one.slot for one in here[turn % 2 :] or here]
        stop = Stop(np.minimum(mixed.table.tokens_left(some), 3), mixed.bell, LONG_S)
        mixed.table.add(mixed.step.run(some, stop if turn % 3 else None))
        mixed.leave_ended()
        turn += 1
    assert said(streams) == said(alone)


@pytest.mark.parametrize(
    "wishes",
    [({"repetition_penalty": 1.3},), (MATCH[0], MATCH[4])],
    ids=["rules", "two methods"],
)
def test_what_is_not_all_native_is_taken_one_by_one(llama: Llama, wishes: tuple[dict[str, object]]) -> None:
    crowd = Striding(llama)
    crowd.join(speakers_of(*wishes)[:2])
    assert len(crowd.stride(tokens=[9, 9]).by_step) == 1


def test_a_row_that_leaves_its_slot_is_refused(plain: Striding) -> None:
    with pytest.raises(IndexError, match="do not fit"):
        while True:
            plain.stride(tokens=[POSITIONS, POSITIONS])
