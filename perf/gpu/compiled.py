"""A decoder whose forwards torch.compile makes one of, for comparison."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import cast

import torch
from talkahead.backbone.forward_graphs import StepInputs
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.speculation.rows import Rows
from torch import Tensor

_TensorForward = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class _TracedRows:
    """`Rows` without what the host lists, which the compiler would look at."""

    def __init__(self, slots: Tensor) -> None:
        self.slots = slots

    def take(self, column: Tensor) -> Tensor:
        return column.index_select(0, self.slots)


class CompiledDecoder(SlotDecoder):
    """Compiled once for any number of rows, of one node and of several.

    Attributes:
        backend: of torch.compile.
    """

    backend = "inductor"

    @cached_property
    def _compiled(self) -> _TensorForward:
        compiled: _TensorForward = torch.compile(self._of_tensors, backend=self.backend, dynamic=True)
        return compiled

    def _forward(self, inputs: StepInputs, rows: Rows) -> tuple[Tensor, Tensor]:
        return self._compiled(inputs.embedded, rows.slots, inputs.depths, inputs.ancestors)

    def _of_tensors(
        self, embedded: Tensor, slots: Tensor, depths: Tensor, ancestors: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows = cast(Rows, _TracedRows(slots))
        return super()._forward(StepInputs(embedded, slots, depths, ancestors), rows)
