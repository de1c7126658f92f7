"""Steps of a repository's talker after prompts: a tree of nodes for each stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from talkahead.backbone.decoder_choice import DecoderChoice, Precision

from perf.engines.timing import Case, Pass
from perf.shapes.forward import OurForward

PART = "talker"
ROWS, NODES = (1, 4, 16), (1, 4, 8)
ENGINES = (
    (DecoderChoice.TORCH, Precision.FLOAT32),
    *((DecoderChoice.NATIVE, precision) for precision in Precision),
)
_CACHE = 256
"""Positions that every slot holds: a prompt and some seconds of speech."""


class TalkerPasses:
    """Of one repository by one decoder."""

    def __init__(self, repository: Path, decoder: DecoderChoice, precision: Precision) -> None:
        self._name = f"{decoder} {precision}"
        folder = repository / "talker" / "1"
        self._forward = OurForward(folder, precision, _CACHE, max(ROWS), max(NODES), decoder)

    def passes(self) -> Iterator[tuple[Case, Pass]]:
        for rows, nodes in product(ROWS, NODES):
            yield Case(PART, self._name, rows, nodes), self._forward.step(rows, nodes)
