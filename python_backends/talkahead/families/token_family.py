"""Families whose talker reads a tokenizer's ids and draws codes, one a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from talkahead.config import AUTO
from talkahead.families.code_tokens import CodeTokens
from talkahead.families.contracts import (
    TORCH,
    Codec,
    Frontend,
    OwnVoice,
    PromptEncoder,
    TokenMap,
    require_engine,
)
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.spelling import Spelling
from talkahead.families.table_encoder import EncoderConfig, TableEncoder
from talkahead.families.text_prompt import TextPrompt
from talkahead.families.text_tokens import TextTokens
from talkahead.families.token_frontend import TokenFrontend
from talkahead.speech_format import SpeechFormat

if TYPE_CHECKING:  # the frontend does without torch
    import torch


@dataclass(frozen=True)
class TokenFamily:
    """A `Family`; `prompt` and `spelling` make what its frontend is of.

    Args:
        least_tokens: that are drawn before the end of speech may be.
    """

    unit_columns: ClassVar[int] = 1

    name: str
    prompt: Callable[[TextTokens, FrontendConfig], TextPrompt]
    spelling: Callable[[TextTokens, FrontendConfig], Spelling]
    least_tokens: int = 0

    def voices(self, encoder: Path) -> tuple[OwnVoice, ...]:
        return tuple(one.offered for one in EncoderConfig.read(encoder).voices)

    def frontend(self, folder: Path, speech: SpeechFormat) -> Frontend:
        config, tokens = FrontendConfig.read(folder), TextTokens(folder)
        return TokenFrontend(self.prompt(tokens, config), self.spelling(tokens, config), speech)

    def prompt_encoder(self, folder: Path, device: torch.device, engine: str = AUTO) -> PromptEncoder:
        """Looking rows up is no work for a device."""
        require_engine(engine, (TORCH,), device.type, f"the prompt encoder of {self.name}")
        return TableEncoder(folder)

    def token_map(self, speech: SpeechFormat) -> TokenMap:
        return CodeTokens(speech.codebooks, self.least_tokens)

    def codec(self, folder: Path, device: torch.device, engine: str = AUTO) -> Codec:
        library = import_module(f"talkahead.families.{self.name}.codec")
        codec: Codec = library.load_codec(folder, device, engine)
        return codec
