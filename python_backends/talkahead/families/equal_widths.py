"""Windows of equal width are decoded together, as they are: padding would be heard, for the layers of the
codecs here look at all of their input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from talkahead.families.contracts import CodecWindow, Samples


def decoded_by_width(
    windows: Sequence[CodecWindow], decode: Callable[[Tensor, list[int]], Tensor], most: int | None = None
) -> list[Samples]:
    """All samples [W * hop] of each window, its context's and its look-ahead's included.

    Args:
        decode: windows [B, W, C], and which frame of its utterance each begins with, to audio [B, W * hop].
        most: windows that it decodes together; None: as many as there are.
    """
    audio = [np.zeros(0, np.float32)] * len(windows)
    for rows in _batches([len(window.frames) for window in windows], most):
        frames = torch.from_numpy(np.stack([windows[row].frames for row in rows]))
        decoded = decode(frames, [windows[row].position - windows[row].context for row in rows])
        for row, samples in zip(rows, decoded.float().cpu().numpy(), strict=True):
            audio[row] = samples
    return audio


def _batches(widths: list[int], most: int | None) -> Iterator[list[int]]:
    """Rows of equal width, narrow ones first: they are first chunks."""
    for width in sorted(set(widths)):
        rows = [row for row, other in enumerate(widths) if other == width]
        size = most or len(rows)
        yield from (rows[start : start + size] for start in range(0, len(rows), size))


def new_part(window: CodecWindow, samples: Samples, hop: int) -> Samples:
    """[new * hop] of all samples of a window."""
    return samples[window.context * hop : (window.context + window.new) * hop]
