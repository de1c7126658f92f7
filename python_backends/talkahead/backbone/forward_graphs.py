"""A step's forward as graphs of a device, recorded once for each size and replayed in place of many launches.

A graph reads and writes where it was recorded: what differs from step to step is copied into buffers first.
Sizes are powers of two, and smaller steps are padded: rows with a slot that no stream has, nodes with some
that nobody looks at.

Shapes: S running rows, N nodes of a tree, D hidden size, V vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

_IS_RECORDING = ContextVar("is_recording", default=False)
Forward = Callable[["StepInputs"], tuple[Tensor, Tensor]]
"""(logits [S, N, V], hidden [S, N, D]) of what it is given."""


@dataclass(frozen=True)
class StepInputs:
    """What a forward of a step reads, beside what lies by slot.

    Args:
        embedded: [S, N, D], the first layer's inputs.
        slots: int64 [S].
        depths: int64 [S, N], or [N] for trees of one shape.
        ancestors: bool [S, N, N] or [N, N]: whom each node sees, itself among them.
    """

    embedded: Tensor
    slots: Tensor
    depths: Tensor
    ancestors: Tensor


class GraphRecorder(Protocol):
    """All that a device has to do for it: `CudaGraphs`."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """What does the same again, on the same tensors. Calls `work` some times before it records it, which
        must harm nothing."""


@contextmanager
def recording() -> Iterator[None]:
    """What is asked for inside will be part of a graph, and no graph is replayed within another."""
    token = _IS_RECORDING.set(True)
    try:
        yield
    finally:
        _IS_RECORDING.reset(token)


class ForwardGraphs:
    """Graphs by (rows, nodes).

    Args:
        forward: computes a step as it is, without a word to the host.
        width, vocabulary: of hidden states and logits.
        dtype: of both, and of `embedded`.
        most_rows, most_nodes: of a step.
        has_one_size: every step is padded to the largest.
        spare: the slot of rows that are padding.

    Attributes:
        tell: called with whether a graph was replayed, for each forward; must return at once.
    """

    def __init__(
        self,
        forward: Forward,
        recorder: GraphRecorder,
        *,
        width: int,
        vocabulary: int,
        dtype: torch.dtype,
        most_rows: int,
        most_nodes: int,
        spare: int,
        device: torch.device,
        has_one_size: bool = False,
    ) -> None:
        self.tell: Callable[[bool], None] = _tell_nobody
        self._spare = spare
        sizes = _largest if has_one_size else bucket_sizes
        self._rows, self._nodes = sizes(most_rows), sizes(most_nodes)
        self._places = _Places.of(most_rows, self._nodes, (width, vocabulary), dtype, spare, device)
        # The largest first: what it takes of the device's memory, the others make do with.
        self._graphs = {
            (rows, nodes): self._record(forward, recorder, rows, nodes)
            for rows in reversed(self._rows)
            for nodes in reversed(self._nodes)
        }

    def _record(self, forward: Forward, recorder: GraphRecorder, rows: int, nodes: int) -> Callable[[], None]:
        inputs, outputs = self._places.inputs(rows, nodes), self._places.outputs(rows, nodes)

        def work() -> None:
            for place, computed in zip(outputs, forward(inputs), strict=True):
                place.copy_(computed)

        return recorder.record(work)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """(rows, nodes) of every graph."""
        return sorted(self._graphs)

    @torch.inference_mode()
    def run(self, inputs: StepInputs) -> tuple[Tensor, Tensor] | None:
        """Logits and hidden states of a step, which hold until the next; None where no graph is so large, or
        the step is being recorded itself."""
        if _IS_RECORDING.get():
            return None
        count, nodes = inputs.embedded.shape[:2]
        if count > self._rows[-1] or nodes > self._nodes[-1]:
            self.tell(False)
            return None
        size = self._rows[bisect_left(self._rows, count)], self._nodes[bisect_left(self._nodes, nodes)]
        self._fill(self._places.inputs(*size), inputs)
        self._graphs[size]()
        logits, hidden = (one[:count, :nodes] for one in self._places.outputs(*size))
        self.tell(True)
        return logits, hidden

    def _fill(self, places: StepInputs, inputs: StepInputs) -> None:
        """What stood in the places of padding before stays there, which nobody looks at: parents come before
        their children, so no earlier tree made a node see one after it."""
        count, nodes = inputs.embedded.shape[:2]
        places.embedded[:count, :nodes] = inputs.embedded
        places.slots[:count] = inputs.slots
        places.slots[count:] = self._spare
        if places.embedded.shape[1] > 1:
            places.depths[:count, :nodes] = inputs.depths
            places.ancestors[:count, :nodes, :nodes] = inputs.ancestors


@dataclass(frozen=True)
class _Places:
    """The buffers, flat; all sizes share them, for one runs at a time."""

    embedded: Tensor
    slots: Tensor
    depths: Tensor
    ancestors: dict[int, Tensor]
    """By nodes: one size's own trees must not be taken for another's."""
    logits: Tensor
    hidden: Tensor
    widths: tuple[int, int]
    """Of hidden states and logits."""

    @classmethod
    def of(
        cls,
        rows: int,
        nodes: list[int],
        widths: tuple[int, int],
        dtype: torch.dtype,
        spare: int,
        device: torch.device,
    ) -> _Places:
        """`nodes`: of each size, ascending."""
        embedded, logits, hidden = (
            torch.zeros(rows * nodes[-1] * width, dtype=dtype, device=device)
            for width in (widths[0], *widths[::-1])
        )
        return cls(
            embedded,
            torch.full((rows,), spare, dtype=torch.int64, device=device),
            torch.zeros(rows * nodes[-1], dtype=torch.int64, device=device),
            {size: torch.eye(size, dtype=torch.bool, device=device).repeat(rows, 1, 1) for size in nodes},
            logits,
            hidden,
            widths,
        )

    def inputs(self, rows: int, nodes: int) -> StepInputs:
        return StepInputs(
            self._sized(self.embedded, rows, nodes, self.widths[0]),
            self.slots[:rows],
            self._sized(self.depths, rows, nodes, 1)[..., 0],
            self.ancestors[nodes][:rows],
        )

    def outputs(self, rows: int, nodes: int) -> tuple[Tensor, Tensor]:
        """Logits and hidden states."""
        width, vocabulary = self.widths
        return self._sized(self.logits, rows, nodes, vocabulary), self._sized(self.hidden, rows, nodes, width)

    @staticmethod
    def _sized(flat: Tensor, rows: int, nodes: int, width: int) -> Tensor:
        return flat[: rows * nodes * width].view(rows, nodes, width)


def bucket_sizes(most: int) -> list[int]:
    """Powers of two, and the largest itself."""
    return sorted({most, *(1 << power for power in range(most.bit_length()) if 1 << power < most)})


def _largest(most: int) -> list[int]:
    return [most]


def _tell_nobody(_replayed: bool) -> None:
    return None
