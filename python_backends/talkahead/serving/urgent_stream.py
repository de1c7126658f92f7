"""Where a GPU computes what somebody waits for in silence."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

_HIGH = -1
"""Lower numbers go first; streams have 0 unless they are told otherwise."""


class UrgentStream:
    """A CUDA stream of high priority: its kernels are begun before others that wait for the GPU, of this
    process, and of others where NVIDIA's MPS has them share it.

    Whoever computes in it must have waited for the result before it goes on elsewhere.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=_HIGH)  # type: ignore[no-untyped-call]

    def entered(self) -> AbstractContextManager[object]:
        """On a CPU, nothing."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
