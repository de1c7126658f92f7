"""Prompts of a repository's encoder, one by one, as it serves them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

from perf.engines.timing import Case, Pass

PART = "prompt encoder"
SYMBOLS = (20, 40, 80, 160)


class PromptPasses:
    """Of one repository by one engine."""

    def __init__(self, repository: Path, engine: str) -> None:
        family = load_family(SpeechFormat.read(repository / "vocoder" / "1").family)
        self._name, self._columns = engine, family.unit_columns
        self._encoder = family.prompt_encoder(repository / "encoder" / "1", torch.device("cpu"), engine)

    def passes(self) -> Iterator[tuple[Case, Pass]]:
        for length in SYMBOLS:
            units = np.zeros((length, self._columns), np.int32)
            yield Case(PART, self._name, 1, length), partial(self._encoder.prompt, units, 0, None)
