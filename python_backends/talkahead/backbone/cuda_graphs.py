"""Recording on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_WARM_UP = 2
"""Calls before the one that is recorded: libraries make their workspaces, kernels are compiled."""


class CudaGraphs:
    """CUDA graphs of one device. They run one at a time, so what they compute in on the way is one pool of
    memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        with torch.cuda.device(self._device):
            self._warm_up(work)
            graph = torch.cuda.CUDAGraph()
            # Other threads go on with the device meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                work()
        self._pool = graph.pool()
        replay: Callable[[], None] = graph.replay
        return replay

    def _warm_up(self, work: Callable[[], None]) -> None:
        """On a stream of its own, as recording wants it."""
        stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                work()
        torch.cuda.current_stream(self._device).wait_stream(stream)
