"""The host's view of the slots: who owns each, its frames so far, and when it must be looked at again.

Shapes: R slots, S running rows, M tokens of a step, F frames of a segment at most, C codebooks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from talkahead.engine.decode_step import DecodeStep, Drawn
from talkahead.engine.engine_telemetry import EngineTelemetry, NoTelemetry
from talkahead.engine.stream import SegmentState
from talkahead.speculation.pairs import Pair

MOST_COMMITTED = 16
"""Tokens of a step that are told apart; more count as so many."""


class SlotTable:
    """Slots and their owners. After a step only those whose owner has something to do are reported.

    Attributes:
        frames: int32 [R, F, C], the frames of the segment in each slot, its pause included.
        counts: int64 [R], how many there are.
        ended: bool [R], the end-of-speech token was drawn.
        totals: int64 [R, 3], target steps, tokens drafted, drafted tokens accepted.
        decode_us: int64 [R], microseconds that the slot's target steps took.
        committed: int64 [R, `MOST_COMMITTED` + 1], steps with a draft that added so many tokens.
    """

    def __init__(
        self,
        step: DecodeStep,
        num_slots: int,
        max_frames: int,
        *,
        eos: int,
        silence: npt.NDArray[np.int64],
        telemetry: EngineTelemetry | None = None,
    ) -> None:
        self._step = step
        self._telemetry = telemetry or NoTelemetry()
        self._eos = eos
        self._silence = silence
        self.frames: npt.NDArray[np.int32] = np.zeros((num_slots, max_frames, 1), dtype=np.int32)
        self.counts: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self._wake_at: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self.ended: npt.NDArray[np.bool_] = np.zeros(num_slots, dtype=np.bool_)
        self.totals: npt.NDArray[np.int64] = np.zeros((num_slots, 3), dtype=np.int64)
        self.decode_us: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self.committed: npt.NDArray[np.int64] = np.zeros((num_slots, MOST_COMMITTED + 1), dtype=np.int64)
        self._owners: list[SegmentState | None] = [None] * num_slots

    @property
    def num_free(self) -> int:
        return self._owners.count(None)

    def claim(self, owner: SegmentState) -> int:
        """The lowest free slot, in which nothing is said yet: few streams then stay neighbours, which tensors
        read as views."""
        slot = self._owners.index(None)
        self._owners[slot] = owner
        owner.slot = slot
        self.counts[slot] = 0
        self.ended[slot] = False
        self.totals[slot] = 0
        self.decode_us[slot] = 0
        self.committed[slot] = 0
        return slot

    def start(self, slot: int, first: npt.NDArray[np.int64]) -> None:
        """The slot's segment has its first frame, [C]."""
        self.frames[slot, 0] = first
        self.counts[slot] = 1
        self._wake_at[slot] = 1

    def fall_silent(self, slot: int, spoken: int, pause: int) -> None:
        """The slot's segment has `spoken` tokens and a pause of so many after them, which takes no step."""
        self.frames[slot, spoken : spoken + pause, 0] = np.resize(self._silence, pause)
        self.counts[slot] = spoken + pause

    def release(self, owner: SegmentState) -> None:
        """Free the owner's slot, if it has one."""
        if owner.slot is not None:
            self._report(owner.slot)
            self._owners[owner.slot] = None
            self._step.release(owner.slot)
            owner.slot = None

    def _report(self, slot: int) -> None:
        steps, drafted, accepted = self.totals[slot].tolist()
        if steps:
            committed = self.committed[slot].tolist()
            committed[1] += steps - sum(committed)
            pair = self.pair_of(slot)
            self._telemetry.spoken(pair.drafter, pair.verifier, drafted, accepted, committed)

    def aligned(self, slot: int, first: int, beyond: int) -> npt.NDArray[np.int32] | None:
        """See `Backbone.aligned`."""
        return self._step.aligned(slot, first, beyond)

    def pair_of(self, slot: int) -> Pair:
        """The names of the drafter and the verifier of the slot's segment."""
        return self._step.method_of(slot).pair

    def wake(self, slot: int, count: int) -> None:
        """The slot's owner has nothing to do before there are so many frames, or its speech ends."""
        self._wake_at[slot] = count

    def tokens_left(self, slots: Sequence[int]) -> npt.NDArray[np.int64]:
        """int64 [S], until each slot's owner has something to do, unless its speech ends before."""
        own = np.array(slots, dtype=np.int64)
        left: npt.NDArray[np.int64] = np.maximum(self._wake_at[own] - self.counts[own], 0)
        return left

    def charge(self, slots: npt.NDArray[np.int64], seconds: float) -> None:
        """A step of these slots took so long."""
        self.decode_us[slots] += round(1e6 * seconds)

    def add(self, drawn: Drawn) -> list[SegmentState]:
        """Append what a step drew; returns the owners that have something to do now."""
        slots = drawn.slots
        self.totals[slots, 0] += len(drawn.by_step)
        if drawn.tokens.shape[1] == 1:
            self._add_one(drawn)
        else:
            self._add_several(drawn)
        due = self.ended[slots] | (self.counts[slots] >= self._wake_at[slots])
        if not due.any():
            return []
        owners = (self._owners[slot] for slot in slots[due].tolist())
        return [owner for owner in owners if owner is not None]

    def _add_one(self, drawn: Drawn) -> None:
        """One token per row; a row that runs goes on and has room. The end's token lies after the count."""
        slots, tokens = drawn.slots, drawn.tokens[:, 0]
        counts, is_end = self.counts[slots], self._ends(tokens)
        self.frames[slots, counts] = tokens
        self.counts[slots] = counts + ~is_end
        self.ended[slots] |= is_end

    def _add_several(self, drawn: Drawn) -> None:
        """What lies after the end of speech, or finds no room, has not been committed."""
        slots, columns = drawn.slots, np.arange(drawn.counts.max())
        tokens, before = drawn.tokens[:, : len(columns)], self.counts[slots]
        steps = len(drawn.by_step)
        most = np.where(self.ended[slots], 0, np.minimum(drawn.counts, self.frames.shape[1] - before))
        is_end = self._ends(tokens) & (columns < most[:, None])
        ends = is_end.any(axis=1)
        spoken = np.where(ends, is_end.argmax(axis=1), most)
        rows, places = (columns < spoken[:, None]).nonzero()
        self.frames[slots[rows], before[rows] + places] = tokens[rows, places]
        self.counts[slots] = before + spoken
        self.ended[slots] |= ends
        if not drawn.num_drafted.any():
            return
        committed = spoken + ends
        self.totals[slots, 1] += steps * drawn.num_drafted
        # Each step but the last one, where an end may lie, has drawn a token besides.
        self.totals[slots, 2] += np.minimum(committed - (steps - 1), drawn.counts - steps)
        by_step = drawn.by_step.copy()
        by_step[-1] -= drawn.counts - committed
        np.add.at(
            self.committed, (np.broadcast_to(slots, by_step.shape), np.minimum(by_step, MOST_COMMITTED)), 1
        )

    def _ends(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which tokens [.., C] end their segments: those with the end of speech in any codebook."""
        ends: npt.NDArray[np.bool_] = (tokens == self._eos).any(axis=-1)
        return ends
