"""The host's view of the slots: who owns each, its frames so far, and when it must be looked at again.

Shapes: R slots, S running rows, M tokens of a step, F frames of a segment at most, C codebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from talkahead.engine.decode_step import DecodeStep, Drawn

Owner = TypeVar("Owner")


class SlotTable(Generic[Owner]):
    """Slots with owners. After a step only the rows whose owner has something to do are reported.

    Attributes:
        counts: int64 [R], frames of the segment in each slot.
        wake_at: int64 [R], the count at which the owner has something to do.
        ended: bool [R], the end-of-speech token was drawn.
        totals: int64 [R, 3], target steps, tokens drafted, drafted tokens accepted.
    """

    def __init__(self, step: DecodeStep, num_slots: int, max_frames: int, eos: int) -> None:
        self._step = step
        self._eos = eos
        self.frames: npt.NDArray[np.int32] = np.zeros((num_slots, max_frames, 1), dtype=np.int32)
        self.counts = np.zeros(num_slots, dtype=np.int64)
        self.wake_at = np.zeros(num_slots, dtype=np.int64)
        self.ended = np.zeros(num_slots, dtype=np.bool_)
        self.totals = np.zeros((num_slots, 3), dtype=np.int64)
        self._owners: list[Owner | None] = [None] * num_slots

    @property
    def num_free(self) -> int:
        return self._owners.count(None)

    @property
    def num_used(self) -> int:
        return len(self._owners) - self.num_free

    def owner(self, slot: int) -> Owner | None:
        return self._owners[slot]

    def slot_of(self, owner: Owner) -> int:
        return next(slot for slot, holder in enumerate(self._owners) if holder is owner)

    def claim(self, owner: Owner) -> int:
        """The lowest free slot: running slots stay together, so that attention reads views."""
        slot = self._owners.index(None)
        self._owners[slot] = owner
        return slot

    def start(self, slot: int, token: int) -> None:
        """The slot's segment has its first frame."""
        self.frames[slot, 0] = token
        self.counts[slot] = 1
        self.wake_at[slot] = 1
        self.ended[slot] = False
        self.totals[slot] = 0

    def release(self, slot: int) -> None:
        self._owners[slot] = None
        self.counts[slot] = 0
        self._step.release(slot)

    def arrange(self, slots: Sequence[int]) -> slice:
        """Make the rows to run neighbours, moving as few as possible; owners find theirs with `slot_of`."""
        wanted = sorted(slots)
        count = len(wanted)
        if wanted[-1] - wanted[0] == count - 1:
            return slice(wanted[0], wanted[-1] + 1)
        starts = range(len(self._owners) - count + 1)
        best = max(starts, key=lambda start: sum(start <= slot < start + count for slot in wanted))
        inside = set(range(best, best + count))
        for source, target in zip(
            [slot for slot in wanted if slot not in inside], sorted(inside - set(wanted)), strict=True
        ):
            self._exchange(source, target)
        return slice(best, best + count)

    def _exchange(self, source: int, target: int) -> None:
        if self._owners[target] is None:
            self._step.move(source, target)
        else:
            self._step.swap(source, target)
        for column in (self.frames, self.counts, self.wake_at, self.ended, self.totals):
            column[[source, target]] = column[[target, source]]
        self._owners[source], self._owners[target] = self._owners[target], self._owners[source]

    def add(self, rows: slice, drawn: Drawn) -> list[Owner]:
        """Append what a step drew; returns the owners that have something to do now."""
        counts, ended = self.counts[rows], self.ended[rows]
        lines = np.arange(rows.start, rows.stop)
        self.totals[rows, 0] += 1
        self.totals[rows, 1] += drawn.num_drafted
        self.totals[rows, 2] += drawn.counts - 1
        for column in range(int(drawn.counts.max())):
            tokens = drawn.tokens[:, column]
            live = (column < drawn.counts) & ~ended & (counts < self.frames.shape[1])
            ended |= live & (tokens == self._eos)
            live &= ~ended
            self.frames[lines[live], counts[live], 0] = tokens[live]
            counts += live
        due = ended | (counts >= self.wake_at[rows])
        if not due.any():
            return []
        owners = [self._owners[rows.start + int(row)] for row in np.flatnonzero(due)]
        return [owner for owner in owners if owner is not None]
