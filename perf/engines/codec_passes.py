"""Windows of a codec, in the middle of utterances, of codes drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from talkahead.families.contracts import Codec, CodecWindow
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

from perf.engines.timing import Case, Pass

PART = "codec"
WINDOWS_S = (0.1, 0.5, 1.0)
"""New audio of a window: a first chunk's, the usual, and a long one's."""


class CodecPasses:
    """Of one vocoder's version folder by one engine."""

    def __init__(self, folder: Path, engine: str, batches: Sequence[int]) -> None:
        self._name, self._batches, self._speech = engine, batches, SpeechFormat.read(folder)
        self._codec: Codec = load_family(self._speech.family).codec(folder, torch.device("cpu"), engine)
        self._draw = np.random.default_rng(0)

    def passes(self) -> Iterator[tuple[Case, Pass]]:
        for seconds, batch in product(WINDOWS_S, self._batches):
            new = self._speech.frames(seconds)
            window, state = self._window(new)
            decode = partial(self._codec.decode, [window] * batch, [state] * batch)
            yield Case(PART, self._name, batch, new), decode

    def _window(self, new: int) -> tuple[CodecWindow, object]:
        """One that goes on, and what the one before it left."""
        context, ahead = self._speech.context_frames, self._speech.lookahead_frames
        first = max(context, 1)
        begin = CodecWindow(self._frames(first + ahead), 0, first, ahead, 0)
        (begun,) = self._codec.decode([begin], [None])
        return CodecWindow(self._frames(context + new + ahead), context, new, ahead, first), begun.state

    def _frames(self, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        return np.stack([self._draw.integers(0, size, count) for size in self._speech.codebooks], axis=1)
