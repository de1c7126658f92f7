"""A function of tensors as graphs of a device, one for each size that keeps coming.

What comes once or twice is computed as it is: windows at the ends of utterances have sizes of their own.

Shapes: B rows, which are apart from each other.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from talkahead.backbone.forward_graphs import GraphRecorder

_LOG = logging.getLogger(__name__)
_RECURRING = 3
"""Times that a size has come when it is recorded."""
_MOST = 48
"""Sizes: each holds what it reads and writes."""

TensorFunction = Callable[..., Sequence[Tensor]]
_Size = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Graph:
    """
    Args:
        given: what it reads.
        made: what it writes.
    """

    given: Sequence[Tensor]
    made: Sequence[Tensor]
    run: Callable[[], None]


class RecordedFunction:
    """Rows are padded to powers of two with whatever stood there.

    Args:
        function: of tensors [B, ...] to tensors [B, ...], which asks the host for nothing.
        recorder: of the device; None: everything is computed as it comes.
        shared: places of arguments that have no rows, but are one for all.

    Attributes:
        replays: of all graphs.
    """

    def __init__(
        self, function: TensorFunction, recorder: GraphRecorder | None, shared: Collection[int] = ()
    ) -> None:
        self.replays = 0
        self._function, self._recorder, self._shared = function, recorder, shared
        self._seen: Counter[_Size] = Counter()
        self._graphs: dict[_Size, _Graph] = {}

    def __call__(self, *given: Tensor) -> Sequence[Tensor]:
        """What is made belongs to the caller."""
        if self._recorder is None:
            return self._function(*given)
        rows = next(len(one) for place, one in enumerate(given) if place not in self._shared)
        size = self._size(given, 1 << (rows - 1).bit_length())
        self._seen[size] += 1
        if size not in self._graphs:
            if self._seen[size] < _RECURRING or len(self._graphs) == _MOST:
                return self._function(*given)
            if not self._record(self._recorder, size, given):
                return self._function(*given)
        return self._replay(self._graphs[size], given, rows)

    def _size(self, given: Sequence[Tensor], rows: int) -> _Size:
        """Shapes of what a graph reads."""
        return tuple(
            tuple(one.shape) if place in self._shared else (rows, *one.shape[1:])
            for place, one in enumerate(given)
        )

    def _record(self, recorder: GraphRecorder, size: _Size, given: Sequence[Tensor]) -> bool:
        """Where the device refuses, there is a line in the log, and nothing more is recorded."""
        places = [one.new_zeros(shape) for one, shape in zip(given, size, strict=True)]
        for place, one in zip(places, given, strict=True):
            place[: len(one)] = one
        try:
            made = [one.clone() for one in self._function(*places)]

            def work() -> None:
                for kept, computed in zip(made, self._function(*places), strict=True):
                    kept.copy_(computed)

            self._graphs[size] = _Graph(places, made, recorder.record(work))
        except RuntimeError as error:
            _LOG.warning("windows are decoded one operation after another, not as graphs: %s", error)
            self._recorder = None
            return False
        return True

    def _replay(self, graph: _Graph, given: Sequence[Tensor], rows: int) -> Sequence[Tensor]:
        for place, one in zip(graph.given, given, strict=True):
            place[: len(one)] = one
        graph.run()
        self.replays += 1
        return [one[:rows].clone() for one in graph.made]
