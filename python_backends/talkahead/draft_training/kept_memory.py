"""Memory that a training frees stays with it, for the next tensor of that size."""

from __future__ import annotations

import ctypes

# Of malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Makes glibc's malloc keep what is freed in this process, where it is glibc's.

    By default blocks of more than 32 MB are mapped anew each time, and a training step makes many: a twelfth
    of its time on a CPU (13.9 s of 15.1 are left) goes into pages that the system has to fill with zeros. The
    process stays as large as it ever was.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)
