"""Who turns prompts into frames, whatever runs the weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from talkahead.config import RequestOptions
from talkahead.speech_format import SpeechFormat

Prompt = npt.NDArray[np.float32]
"""[P, D]"""


class Talker(Protocol):
    """Speaks a batch of prompts together; returns the frames before each one's end."""

    def speak(self, prompts: Sequence[Prompt], options: RequestOptions, seed: int) -> list[list[int]]: ...
    def close(self) -> None: ...


def max_frames(options: RequestOptions, repository: Path) -> int:
    return SpeechFormat.read(repository / "vocoder" / "1").frames(options.max_seconds)
