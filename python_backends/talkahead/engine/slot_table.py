"""The host's view of the slots: who owns each, its frames so far, and when it must be looked at again.

Shapes: R slots, S running rows, M tokens of a step, F frames of a segment at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from talkahead.engine.decode_step import DecodeStep, Drawn
from talkahead.engine.engine_telemetry import EngineTelemetry, NoTelemetry
from talkahead.engine.method import Method
from talkahead.engine.stream import Speech
from talkahead.speculation.pairs import Pair

MOST_COMMITTED = 16
"""Tokens of a step that are told apart; more count as so many."""


class SlotTable:
    """Slots and their owners. After a step only those whose owner has something to do are reported.

    Attributes:
        frames: int32 [R, F, 1], the frames of the segment in each slot, its pause included.
        counts: int64 [R], how many there are.
        wake_at: int64 [R], the count at which the owner has something to do.
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
        self.wake_at: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self.ended: npt.NDArray[np.bool_] = np.zeros(num_slots, dtype=np.bool_)
        self.totals: npt.NDArray[np.int64] = np.zeros((num_slots, 3), dtype=np.int64)
        self.decode_us: npt.NDArray[np.int64] = np.zeros(num_slots, dtype=np.int64)
        self.committed: npt.NDArray[np.int64] = np.zeros((num_slots, MOST_COMMITTED + 1), dtype=np.int64)
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
        self.decode_us[slot] = 0
        self.committed[slot] = 0

    def fall_silent(self, slot: int, spoken: int, pause: int) -> None:
        """The slot's segment has `spoken` tokens and a pause of so many behind them, which takes no step."""
        self.frames[slot, spoken : spoken + pause, 0] = np.resize(self._silence, pause)
        self.counts[slot] = spoken + pause

    def release(self, owner: Speech) -> None:
        """Free the owner's slot, if it has one."""
        if owner.slot is not None:
            self._tell(owner.slot)
            self._owners[owner.slot] = None
            self._step.release(owner.slot)
            owner.slot = None

    def _tell(self, slot: int) -> None:
        steps, drafted, accepted = self.totals[slot].tolist()
        if steps:
            committed = self.committed[slot].tolist()
            committed[1] += steps - sum(committed)
            pair = self.pair_of(slot)
            self._telemetry.spoken(pair.drafter, pair.verifier, drafted, accepted, committed)

    def arrange(self, slots: Sequence[int]) -> slice:
        """Make the slots to run neighbours, and those of one method among them, moving as few as possible.

        Owners are told where they are.
        """
        held = {slot: self._step.method_of(slot) for slot in sorted(slots)}
        kinds = list(held.values())
        if any(one is not kinds[0] for one in kinds):
            # Methods stand in the order in which they are met.
            kinds = [kind for kind in dict.fromkeys(kinds) for other in kinds if other is kind]
        first = self._best_start(held, kinds)
        wanted = dict(enumerate(kinds, first))
        for target, kind in wanted.items():
            if held.get(target) is not kind:
                self._bring(kind, target, held, wanted)
        return slice(first, first + len(kinds))

    def _best_start(self, held: dict[int, Method], kinds: list[Method]) -> int:
        """Where the most slots already hold what they shall."""
        if max(held) - min(held) == len(kinds) - 1:
            return min(held)
        starts = range(len(self._owners) - len(kinds) + 1)
        return max(
            starts, key=lambda start: sum(held.get(slot) is kind for slot, kind in enumerate(kinds, start))
        )

    def _bring(self, kind: Method, target: int, held: dict[int, Method], wanted: dict[int, Method]) -> None:
        """Exchange what lies in `target` for a row of that kind that is out of place."""
        displaced = held.get(target)
        sources = [slot for slot, own in held.items() if own is kind and wanted.get(slot) is not kind]
        source = next((slot for slot in sources if wanted.get(slot) is displaced), sources[0])
        self._exchange(source, target)
        held[target] = kind
        if displaced is None:
            del held[source]
        else:
            held[source] = displaced

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
        for column in self._columns():
            column[[source, target]] = column[[target, source]]

    def _columns(self) -> tuple[npt.NDArray[np.generic], ...]:
        return (
            self.frames,
            self.counts,
            self.wake_at,
            self.ended,
            self.totals,
            self.decode_us,
            self.committed,
        )

    def pair_of(self, slot: int) -> Pair:
        """The names of the drafter and the verifier of the slot's segment."""
        return self._step.method_of(slot).pair

    def charge(self, rows: slice, seconds: float) -> None:
        """A step of these rows took so long."""
        self.decode_us[rows] += round(1e6 * seconds)

    def add(self, rows: slice, drawn: Drawn) -> list[Speech]:
        """Append what a step drew; returns the owners that have something to do now."""
        self.totals[rows, 0] += 1
        if drawn.tokens.shape[1] == 1:
            self._add_one(rows, drawn.tokens[:, 0])
        else:
            self._add_several(rows, drawn)
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

    def _add_several(self, rows: slice, drawn: Drawn) -> None:
        """What lies behind the end of speech, or finds no room, has not been committed."""
        committed = np.zeros_like(drawn.counts)
        for column in range(int(drawn.counts.max())):
            committed += self._add_column(rows, drawn.tokens[:, column], column < drawn.counts)
        self.totals[rows, 1] += drawn.num_drafted
        self.totals[rows, 2] += np.minimum(committed, drawn.counts - 1)
        self.committed[rows][self._lines[: len(committed)], np.minimum(committed, MOST_COMMITTED)] += 1

    def _add_column(
        self, rows: slice, tokens: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """One token per row, where there is one, the segment goes on, and its slot has room: bool [S]."""
        counts, ended = self.counts[rows], self.ended[rows]
        live = valid & ~ended & (counts < self.frames.shape[1])
        ended |= live & (tokens == self._eos)
        is_frame = live & ~ended
        lines = np.flatnonzero(is_frame)
        self.frames[rows][lines, counts[lines], 0] = tokens[lines]
        counts += is_frame
        return live
