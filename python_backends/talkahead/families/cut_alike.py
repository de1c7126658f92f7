"""Windows that are cut alike are decoded together, as they are: padding would be heard, for the layers of the
codecs here look at all of their input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from talkahead.families.contracts import CodecWindow, Samples


def decoded_alike(
    windows: Sequence[CodecWindow],
    decode: Callable[[Tensor, Sequence[CodecWindow]], Tensor],
    most: int | None = None,
) -> list[Samples]:
    """What `decode` makes of each window.

    Args:
        decode: frames [B, W, C] of windows of the same context, new frames and look-ahead, and these windows,
            to samples [B, N].
        most: windows that it decodes together; None: as many as there are.
    """
    audio = [np.zeros(0, np.float32)] * len(windows)
    for rows in _batches(windows, most):
        together = [windows[row] for row in rows]
        frames = torch.from_numpy(np.stack([window.frames for window in together]))
        for row, samples in zip(rows, decode(frames, together).float().cpu().numpy(), strict=True):
            audio[row] = samples
    return audio


def _batches(windows: Sequence[CodecWindow], most: int | None) -> Iterator[list[int]]:
    """Rows of windows that are cut alike, narrow ones first: they are first chunks."""
    cuts = [(len(window.frames), window.context, window.new) for window in windows]
    for one in sorted(set(cuts)):
        rows = [row for row, other in enumerate(cuts) if other == one]
        size = most or len(rows)
        yield from (rows[start : start + size] for start in range(0, len(rows), size))
