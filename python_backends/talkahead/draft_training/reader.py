"""Texts as a talker of any family is given them: as its repository's frontend and encoder make prompts.

Shapes: P prompt rows, D hidden size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from talkahead.errors import BadRequest, TalkaheadError
from talkahead.families.contracts import Segment, Units
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

Passage = Mapping[str | None, Units]
"""A segment's units, by what the voice's stored speech says before them."""

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
                "here, and drafts learn from speech of named voices only; add one with: talkahead voices add"
            )

    def passages(self, text: str) -> list[Passage]:
        """The segments of a text, cut alike for all voices; none of one that the frontend refuses."""
        sayings = list(dict.fromkeys(voice.said for voice in self.voices))
        try:
            cuts: list[list[Segment]] = [list(self._frontend.segments(text, said)) for said in sayings]
        except BadRequest:
            return []
        return [
            {said: segment.units for said, segment in zip(sayings, alike, strict=True)}
            for alike in zip(*cuts, strict=True)
        ]

    def prompt(self, passage: Passage, voice: int) -> Tensor:
        """float32 [P, D]"""
        return self._encoder.prompt(passage[self.voices[voice].said], voice, None).float()

    def prompts(self, texts: Iterable[str]) -> Iterator[Tensor]:
        """Every text in every voice."""
        for text in texts:
            passages = self.passages(text)
            for voice in range(len(self.voices)):
                yield from (self.prompt(passage, voice) for passage in passages)
