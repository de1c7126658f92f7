"""The voices of this server, read without loading the network that speaks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from talkahead.config import ModelConfig
from talkahead.errors import BadRequest
from talkahead.families.contracts import OwnVoice
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat


@dataclass(frozen=True)
class Voices:
    """In the order of the encoder's ids; the first is the default."""

    own: tuple[OwnVoice, ...]

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        """The voices of the repository of `config`'s model."""
        speech = SpeechFormat.read(config.artifact_folder("vocoder"))
        return cls(load_family(speech.family).voices(config.artifact_folder("encoder")))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(voice.name for voice in self.own)

    @property
    def of_a_reference(self) -> int:
        """The encoder's id for none of them: the voice of the reference that comes with the text."""
        return len(self.own)

    def said(self, voice: int) -> str | None:
        """What the stored speech of a voice says; None of one without."""
        return self.own[voice].said if voice < len(self.own) else None

    def is_fixed(self, voice: int) -> bool:
        """See `OwnVoice`; any is by a reference."""
        return voice >= len(self.own) or self.own[voice].is_fixed

    def id_of(self, name: str | None) -> int:
        """Raises BadRequest for a voice that is not there."""
        if name is None and self.own:
            return 0
        if name not in self.names:
            raise BadRequest("VOICE", name, ", ".join(self.names) or "none: send REFERENCE_AUDIO instead")
        return self.names.index(name)
