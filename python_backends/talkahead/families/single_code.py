"""Tokens of talkers that draw one code a frame: a token is its code, the end of speech comes behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from talkahead.families.contracts import Frames
from talkahead.speech_format import SpeechFormat


@dataclass(frozen=True)
class SingleCode:
    """A `TokenMap`; `eos` is as large as the codebook."""

    eos: int

    @classmethod
    def of(cls, speech: SpeechFormat) -> SingleCode:
        (size,) = speech.codebooks
        return cls(size)

    def frames(self, tokens: npt.NDArray[np.int32]) -> Frames:
        return tokens[:, None].copy()

    def tokens(self, frames: Frames) -> npt.NDArray[np.int64]:
        return frames[:, 0].astype(np.int64)
