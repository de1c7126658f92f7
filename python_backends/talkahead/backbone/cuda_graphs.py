"""Recording on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_WARM_UP = 2
"""Calls before the one that is recorded: libraries make their workspaces, kernels are compiled."""


def recorder_on(device: torch.device) -> CudaGraphs | None:
    """What records on a device; None where nothing does."""
    return CudaGraphs(device) if device.type == "cuda" else None


class CudaGraphs:
    """CUDA graphs of one device. They run one at a time, so what they compute in on the way is one pool of
    memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None
        self._streams: dict[int, torch.cuda.Stream] = {}

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        with torch.cuda.device(self._device):
            stream = self._stream()
            self._warm_up(work, stream)
            graph = torch.cuda.CUDAGraph()
            # Other threads go on with the device meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                work()
        self._pool = graph.pool()
        replay: Callable[[], None] = graph.replay
        return replay

    def _stream(self) -> torch.cuda.Stream:
        """To record in: one, for memory is used again within a stream alone; but kernels keep its priority,
        which is that of the stream in use."""
        priority: int = torch.cuda.current_stream(self._device).priority
        if priority not in self._streams:
            made: torch.cuda.Stream = torch.cuda.Stream(self._device, priority=priority)  # type: ignore[no-untyped-call]
            self._streams[priority] = made
        return self._streams[priority]

    def _warm_up(self, work: Callable[[], None], stream: torch.cuda.Stream) -> None:
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                work()
        torch.cuda.current_stream(self._device).wait_stream(stream)
