"""The four parts of the family."""

from __future__ import annotations

from pathlib import Path

import torch

from talkahead.audio.codec import CodecConfig
from talkahead.errors import ArtifactMismatch
from talkahead.families.code_tokens import CodeTokens
from talkahead.families.contracts import Codec, Frontend, PromptEncoder, TokenMap
from talkahead.families.phonemic.codec import PitchCodec, speech_format
from talkahead.families.phonemic.frontend import UNIT_COLUMNS, PhonemeFrontend
from talkahead.families.phonemic.prompt import PhonemePromptEncoder
from talkahead.families.phonemic.text_encoder import TextEncoderConfig
from talkahead.speech_format import NAME, SpeechFormat


class Phonemic:
    """A `Family`."""

    unit_columns = UNIT_COLUMNS

    def voices(self, encoder: Path) -> tuple[str, ...]:
        path = encoder / "encoder.json"
        try:
            return TextEncoderConfig.from_file(path).voices
        except (OSError, KeyError, ValueError) as error:
            raise ArtifactMismatch(
                f"{path} does not list the voices ({error}); rebuild it with make train"
            ) from error

    def frontend(self, folder: Path, speech: SpeechFormat) -> Frontend:
        return PhonemeFrontend()

    def prompt_encoder(self, folder: Path, device: torch.device) -> PromptEncoder:
        return PhonemePromptEncoder.load(folder, device)

    def token_map(self, speech: SpeechFormat) -> TokenMap:
        return CodeTokens(speech.codebooks)

    def codec(self, folder: Path, device: torch.device) -> Codec:
        """Raises ArtifactMismatch where the format is not this codec's."""
        speech = SpeechFormat.read(folder)
        codec = CodecConfig.from_file(folder / "codec.json")
        own = speech_format(codec, speech.silence[0], speech.max_positions)
        if own != speech:
            raise ArtifactMismatch(
                f"{folder / NAME} is not that of codec.json beside it; rebuild both with make train"
            )
        return PitchCodec.load(folder, device)


FAMILY = Phonemic()
