"""The four parts of the family. Torch is imported where it is used, for the frontend does without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from talkahead.config import AUTO, folder_beside
from talkahead.errors import ArtifactMismatch
from talkahead.families.code_tokens import CodeTokens
from talkahead.families.contracts import OwnVoice
from talkahead.families.phonemic.frontend import UNIT_COLUMNS, PhonemeFrontend
from talkahead.families.phonemic.voice import voices_of
from talkahead.speech_format import NAME, SpeechFormat

if TYPE_CHECKING:
    import torch

    from talkahead.families.contracts import Codec, Frontend, PromptEncoder, TokenMap


class Phonemic:
    """A `Family`."""

    unit_columns = UNIT_COLUMNS

    def voices(self, encoder: Path) -> tuple[OwnVoice, ...]:
        path = encoder / "encoder.json"
        try:
            speakers = tuple(json.loads(path.read_text(encoding="utf-8"))["voices"])
        except (OSError, KeyError, ValueError) as error:
            raise ArtifactMismatch(
                f"{path} does not list the voices ({error}); rebuild it with make train"
            ) from error
        return tuple(OwnVoice(voice.name) for voice in voices_of(folder_beside(encoder, "vocoder"), speakers))

    def frontend(self, folder: Path, speech: SpeechFormat) -> Frontend:
        return PhonemeFrontend()

    def prompt_encoder(self, folder: Path, device: torch.device, engine: str = AUTO) -> PromptEncoder:
        from talkahead.families.phonemic.prompt import PhonemePromptEncoder

        return PhonemePromptEncoder.load(folder, device, engine)

    def token_map(self, speech: SpeechFormat) -> TokenMap:
        return CodeTokens(speech.codebooks)

    def codec(self, folder: Path, device: torch.device, engine: str = AUTO) -> Codec:
        """Raises ArtifactMismatch also where the format is not this codec's."""
        from talkahead.families.phonemic.spectral_codec import SpectralCodec, speech_format
        from talkahead.families.phonemic.spectral_decoder import CONFIG_FILE, SpectralConfig

        speech, config = SpeechFormat.read(folder), SpectralConfig.from_file(folder / CONFIG_FILE)
        if speech_format(config, speech.silence[0], speech.max_positions) != speech:
            raise ArtifactMismatch(
                f"{folder / NAME} is not that of codec.json beside it; rebuild both with make train"
            )
        return SpectralCodec.load(folder, device, engine)


FAMILY = Phonemic()
