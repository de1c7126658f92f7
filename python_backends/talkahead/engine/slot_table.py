"""The host's view of the slots: who owns each, its frames so far, and when it must be looked at again.

Shapes: R slots, S running rows, M tokens of a step, F frames of a segment at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from talkahead.engine.decode_step import DecodeStep, Drawn
from talkahead.engine.stream import Speech


class SlotTable:
    """Slots and their owners. After a step only those whose owner has something to do are reported.

    Attributes:
        frames: int32 [R, F, 1], the frames of the segment in each slot, its pause included.
        counts: int64 [R], how many there are.
        wake_at: int64 [R], the count at which the owner has something to do.
        ended: bool [R], the end-of-speech token was drawn.
        totals: int64 [R, 3], target steps, tokens drafted, drafted tokens accepted.
    """

    def __init__(self, step: DecodeStep, num_slots: int, max_frames: int, *, eos: int, silence: int) -> None:
        self._step = step
        self._eos = eos
        self._silence = silence
        self.frames: npt.NDArray[np.int32] = np.zeros((num_slots, max_frames, 1), dtype=np.int32)
        self.counts: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self.wake_at: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self.ended: npt.NDArray[np.bool_] = np.zeros(num_slots, dtype=np.bool_)
        self.totals: npt.NDArray[np.int64] = np.zeros((num_slots, 3), dtype=np.int64)
        self._lines = np.arange(num_slots)
        self._owners: list[Speech | None] = [None] * num_slots

    @property
    def num_free(self) -> int:
        return self._owners.count(None)

    def claim(self, owner: Speech) -> int:
        """The lowest free slot: running slots stay together, so that attention reads views."""
        slot = self._owners.index(None)
        self._owners[slot] = owner
        owner.slot = slot
        return slot

    def start(self, slot: int, token: int) -> None:
        """The slot's segment has its first frame."""
        self.frames[slot, 0] = token
        self.counts[slot] = 1
        self.wake_at[slot] = 1
        self.ended[slot] = False
        self.totals[slot] = 0

    def fall_silent(self, slot: int, spoken: int, pause: int) -> None:
        """The slot's segment has `spoken` frames and a pause behind them, which takes no step."""
        self.frames[slot, spoken : spoken + pause] = self._silence
        self.counts[slot] = spoken + pause

    def release(self, owner: Speech) -> None:
        """Free the owner's slot, if it has one."""
        if owner.slot is not None:
            self._owners[owner.slot] = None
            self._step.release(owner.slot)
            owner.slot = None

    def arrange(self, slots: Sequence[int]) -> slice:
        """Make the slots to run neighbours, moving as few as possible; owners are told where they are."""
        wanted = sorted(slots)
        count = len(wanted)
        if wanted[-1] - wanted[0] == count - 1:
            return slice(wanted[0], wanted[-1] + 1)
        starts = range(len(self._owners) - count + 1)
        best = max(starts, key=lambda start: sum(start <= slot < start + count for slot in wanted))
        window = range(best, best + count)
        outside = [slot for slot in wanted if slot not in window]
        for source, target in zip(outside, sorted(set(window) - set(wanted)), strict=True):
            self._exchange(source, target)
        return slice(best, best + count)

    def _exchange(self, source: int, target: int) -> None:
        moved, displaced = self._owners[source], self._owners[target]
        assert moved is not None
        if displaced is None:
            self._step.move(source, target)
        else:
            self._step.swap(source, target)
            displaced.slot = source
        moved.slot = target
        self._owners[source], self._owners[target] = displaced, moved
        for column in (self.frames, self.counts, self.wake_at, self.ended, self.totals):
            column[[source, target]] = column[[target, source]]

    def add(self, rows: slice, drawn: Drawn) -> list[Speech]:
        """Append what a step drew; returns the owners that have something to do now."""
        self.totals[rows, 0] += 1
        if drawn.tokens.shape[1] == 1:
            self._add_one(rows, drawn.tokens[:, 0])
        else:
            self.totals[rows, 1] += drawn.num_drafted
            self.totals[rows, 2] += drawn.counts - 1
            for column in range(int(drawn.counts.max())):
                self._add_column(rows, drawn.tokens[:, column], column < drawn.counts)
        due = self.ended[rows] | (self.counts[rows] >= self.wake_at[rows])
        if not due.any():
            return []
        owners = (self._owners[rows.start + int(row)] for row in np.flatnonzero(due))
        return [owner for owner in owners if owner is not None]

    def _add_one(self, rows: slice, tokens: npt.NDArray[np.int64]) -> None:
        """One token per row; a row that runs goes on and has room. The end's token lies behind the count."""
        counts = self.counts[rows]
        is_end = tokens == self._eos
        self.frames[rows][self._lines[: len(counts)], counts, 0] = tokens
        counts += ~is_end
        self.ended[rows] |= is_end

    def _add_column(self, rows: slice, tokens: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_]) -> None:
        """One token per row, where there is one, the segment goes on, and its slot has room."""
        counts, ended = self.counts[rows], self.ended[rows]
        live = valid & ~ended & (counts < self.frames.shape[1])
        ended |= live & (tokens == self._eos)
        live &= ~ended
        lines = np.flatnonzero(live)
        self.frames[rows][lines, counts[lines], 0] = tokens[lines]
        counts += live
