"""Recording on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from talkahead.backbone.forward_graphs import Recorded

_WARM_UP = 2
"""Calls before the one that is recorded: libraries make their workspaces, kernels are compiled."""


class CudaGraphs:
    """CUDA graphs of one device. They run one at a time, so they share one pool of memory: what one has
    computed holds until the next runs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def record(self, forward: Callable[[], tuple[Tensor, Tensor]]) -> Recorded:
        with torch.cuda.device(self._device):
            self._warm_up(forward)
            graph = torch.cuda.CUDAGraph()
            # Other threads go on with the device meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                outputs = forward()
        self._pool = graph.pool()
        return Recorded(graph.replay, outputs)

    def _warm_up(self, forward: Callable[[], tuple[Tensor, Tensor]]) -> None:
        """On a stream of its own, as recording wants it."""
        stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                forward()
        torch.cuda.current_stream(self._device).wait_stream(stream)
