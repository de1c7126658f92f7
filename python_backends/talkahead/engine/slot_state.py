"""What decoding knows of each slot, in columns: steps read their rows of them and write them back.

Shapes: R slots, S running rows, F frames of a segment at most, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.config import RequestOptions
from talkahead.speculation.contracts import Context
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.repetition_settings import RepetitionSettings
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings, support_of


class NewSegment(Protocol):
    """One that enters a slot: its options, the seed of its draws, and the talker's own tokens in its prompt,
    int64 [H], in order."""

    @property
    def slot(self) -> int: ...

    @property
    def options(self) -> RequestOptions: ...

    @property
    def seed(self) -> int: ...

    @property
    def segment(self) -> int: ...

    @property
    def history(self) -> Tensor: ...


class SlotState:
    """Columns [R + 1, ...]: after the streams' slots lies one that no stream has, for rows that are padding.

    Attributes:
        spare: that one.
    """

    def __init__(self, backbone: Backbone) -> None:
        slots, device = backbone.num_slots + 1, backbone.device
        self.spare = backbone.num_slots
        self._roots = torch.zeros((slots, 1), dtype=torch.int64, device=device)
        self._positions = torch.zeros(slots, dtype=torch.int64, device=device)
        self._hidden = torch.zeros((slots, backbone.hidden_size), dtype=backbone.dtype, device=device)
        self._frames = torch.zeros((slots, backbone.max_positions, 1), dtype=torch.int64, device=device)
        self._keys = torch.zeros(slots, dtype=torch.int64, device=device)
        zeros = torch.zeros(slots, dtype=torch.float64, device=device)
        self._settings = SamplingSettings.of(zeros, self._positions, zeros + 1.0)
        self._supports: list[int | None] = [None] * slots
        wholes = (torch.zeros_like(self._positions) for _ in range(3))
        self._repetition = RepetitionSettings(zeros + 1.0, *wholes)

    def admit(self, where: Tensor, segments: Sequence[NewSegment]) -> None:
        """What new segments bring to their slots; `where` are these on the device, int64 [B]."""

        def column(values: list[int] | list[float], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=where.device)

        options = [segment.options for segment in segments]
        self._settings[where] = SamplingSettings.of(
            column([one.temperature for one in options], torch.float64),
            column([one.top_k for one in options], torch.int64),
            column([one.top_p for one in options], torch.float64),
        )
        self._repetition[where] = RepetitionSettings(
            column([one.repetition_penalty for one in options], torch.float64),
            column([one.ras_win_len for one in options], torch.int64),
            column([one.ras_win_max_num_repeat for one in options], torch.int64),
            column([len(one.history) for one in segments], torch.int64),
        )
        self._keys[where] = stream_keys(
            column([one.seed for one in segments], torch.int64),
            column([one.segment for one in segments], torch.int64),
        )
        for one in segments:
            self._supports[one.slot] = support_of(one.options.temperature, one.options.top_k)
            self._frames[one.slot, self._frames.shape[1] - len(one.history) :, 0] = one.history

    def begin(self, where: Tensor, first: Tensor, hidden: Tensor) -> None:
        """Slots [B] whose first tokens [B, C] were drawn from `hidden` [B, D]."""
        self._roots[where] = first
        self._positions[where] = torch.zeros_like(where)
        self._frames[where, 0] = first
        self._hidden[where] = hidden

    def support(self, slots: Sequence[int]) -> int | None:
        """Tokens that any of them can be drawn from at most; None: all."""
        own = [self._supports[slot] for slot in slots]
        return None if None in own else max(one for one in own if one is not None)

    def taken(self, rows: Rows, support: int | None, *, looks_back: bool = True) -> Context:
        """The rows side by side: views of what lies by slot where they are neighbours, else copies; without
        what was drawn before, unless `looks_back`: of 16 rows that is 200 KB."""
        settings = SamplingSettings(*map(rows.take, self._settings.columns), support=support)
        return Context(
            rows=rows,
            roots=rows.take(self._roots),
            positions=rows.take(self._positions),
            hidden=rows.take(self._hidden),
            frames=rows.take(self._frames) if looks_back else self._frames[:0],
            keys=rows.take(self._keys),
            settings=settings,
            repetition=RepetitionSettings(*map(rows.take, self._repetition.columns)),
        )

    def room(self, count: int) -> Context:
        """For so many rows, which `fill` brings there, for whoever looks at nothing that was drawn before."""

        def like(column: Tensor) -> Tensor:
            return torch.zeros((count, *column.shape[1:]), dtype=column.dtype)

        return Context(
            rows=Rows(torch.zeros(count, dtype=torch.int64)),
            roots=like(self._roots),
            positions=like(self._positions),
            hidden=like(self._hidden),
            frames=self._frames[:0],
            keys=like(self._keys),
            settings=SamplingSettings(*map(like, self._settings.columns)),
        )

    def fill(self, room: Context, rows: Rows) -> None:
        """With these slots' state. `put` brings back what steps have written."""
        room.rows.slots.copy_(rows.slots)
        own = (self._roots, self._positions, self._hidden, self._keys, *self._settings.columns)
        others = (room.roots, room.positions, room.hidden, room.keys, *room.settings.columns)
        for column, taken in zip(own, others, strict=True):
            torch.index_select(column, 0, rows.slots, out=taken)

    def before_first(self, rows: Rows, support: int | None) -> Context:
        """`taken`, of rows whose latest token is the last one in their prompts."""
        state = self.taken(rows, support)
        return replace(state, roots=state.frames[:, -1], positions=torch.full_like(state.positions, -1))

    def put(self, taken: Context, *, looks_back: bool = True) -> None:
        """Bring what a step has written back to the slots; `looks_back`: frames too."""
        rows = taken.rows
        rows.put(self._roots, taken.roots)
        rows.put(self._positions, taken.positions)
        rows.put(self._hidden, taken.hidden)
        if looks_back:
            rows.put(self._frames, taken.frames)

    def clear_spare(self) -> None:
        """What rows of padding have made of their slot: it may not run away. See `CachedDecoder.release`."""
        self._positions[self.spare].zero_()
