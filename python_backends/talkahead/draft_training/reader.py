"""Texts as a talker of any family is given them: as its repository's frontend and encoder make prompts.

Shapes: P prompt rows, D hidden size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from talkahead.errors import BadRequest, TalkaheadError
from talkahead.families.contracts import Units
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

VERSION = "1"
"""The version folder of each model."""


class Reader:
    """Frontend and encoder of a model repository; raises ArtifactMismatch for what cannot be loaded."""

    def __init__(self, repository: Path) -> None:
        encoder = repository / "encoder" / VERSION
        self.speech = SpeechFormat.read(repository / "vocoder" / VERSION)
        family = load_family(self.speech.family)
        self.voices = family.voices(encoder)
        self.allowed = family.token_map(self.speech).allowed
        self._frontend = family.frontend(repository / "frontend" / VERSION, self.speech)
        self._encoder = family.prompt_encoder(encoder, torch.device("cpu"))
        if not self.voices:
            raise TalkaheadError(
                f"{encoder}: there is no voice to speak with: the family {self.speech.family} knows none "
                "here, and drafts learn from speech of named voices only"
            )

    def passages(self, text: str) -> list[Units]:
        """The segments of a text; none of a text that the frontend refuses."""
        try:
            return [segment.units for segment in self._frontend.segments(text)]
        except BadRequest:
            return []

    def prompt(self, units: Units, voice: int) -> Tensor:
        """float32 [P, D]"""
        return self._encoder.prompt(units, voice, None).float()

    def prompts(self, texts: Iterable[str]) -> Iterator[Tensor]:
        """Every text in every voice."""
        for text in texts:
            passages = self.passages(text)
            for voice in range(len(self.voices)):
                yield from (self.prompt(units, voice) for units in passages)
