"""Whether the host may look at a tensor's values while a step runs."""

from __future__ import annotations

from torch import Tensor


def are_free(tensor: Tensor) -> bool:
    """On a CPU they are there. Anywhere else the host would wait for all that was asked of the device, and a
    graph of the step could not be captured."""
    return tensor.is_cpu
