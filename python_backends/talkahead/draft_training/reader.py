"""Texts as a talker of any family is given them: as its repository's frontend and encoder make prompts.

Shapes: P prompt rows, D hidden size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from talkahead.errors import BadRequest, TalkaheadError
from talkahead.families.contracts import Segment, Units
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

VERSION = "1"
"""The version folder of each model."""


@dataclass(frozen=True)
class Passage:
    """A segment.

    Args:
        words: as they are written.
        units: by what the voice's stored speech says before them.
    """

    words: str
    units: Mapping[str | None, Units]


class Reader:
    """Frontend and encoder of a model repository; raises ArtifactMismatch for what cannot be loaded."""

    def __init__(self, repository: Path) -> None:
        encoder = repository / "encoder" / VERSION
        self.speech = SpeechFormat.read(repository / "vocoder" / VERSION)
        family = load_family(self.speech.family)
        self.voices = family.voices(encoder)
        self._tokens = family.token_map(self.speech)
        self.allowed = self._tokens.allowed
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
            Passage(
                text[alike[0].char_start : alike[0].char_end],
                {said: segment.units for said, segment in zip(sayings, alike, strict=True)},
            )
            for alike in zip(*cuts, strict=True)
        ]

    def prompt(self, passage: Passage, voice: int) -> Tensor:
        """float32 [P, D]"""
        return self._encoder.prompt(passage.units[self.voices[voice].said], voice, None).float()

    @property
    def goes_on(self) -> bool:
        """Whether prompts that are served may hold speech to go on from: a recording's, or the stream's."""
        return self.speech.reference_positions > 0 or not all(voice.is_fixed for voice in self.voices)

    @property
    def room(self) -> int:
        """Positions for that speech and its words."""
        return self.speech.max_positions - self.speech.segment_positions if self.goes_on else 0

    def prompt_after(self, passage: Passage, said: Passage, tokens: Sequence[int]) -> Tensor | None:
        """float32 [P, D], of a passage that goes on from another one and the tokens that it was spoken as, as
        after a reference; None where these are not whole, or too many."""
        *spoken, last = tokens
        frames = self._tokens.frames(np.array(spoken, np.int32))
        units = self._frontend.units_of(said.words)
        if last != self._tokens.eos or not len(frames) or frames.size + units > self.room:
            return None
        segment = next(iter(self._frontend.segments(passage.words, said.words)))
        return self._encoder.prompt(segment.units, len(self.voices), frames).float()

    def prompts(self, texts: Iterable[str]) -> Iterator[Tensor]:
        """Every text in every voice."""
        for text in texts:
            passages = self.passages(text)
            for voice in range(len(self.voices)):
                yield from (self.prompt(passage, voice) for passage in passages)
