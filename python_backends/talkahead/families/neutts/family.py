"""NeuTTS: phonemes, after those of the voice that it speaks like."""

from __future__ import annotations

from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.neutts.espeak import Espeak
from talkahead.families.neutts.ipa import Ipa
from talkahead.families.spelling import Spelling
from talkahead.families.text_prompt import ContinuedPrompt
from talkahead.families.text_tokens import TextTokens
from talkahead.families.token_family import TokenFamily

_BEFORE = "user: Convert the text to speech:<|TEXT_PROMPT_START|>"
_AFTER = "<|TEXT_PROMPT_END|>\nassistant:<|SPEECH_GENERATION_START|>"
OWN, ESPEAK = "own", "espeak"
_LEAST_TOKENS = 50
"""`min_new_tokens` of its reference: a second, before which speech does not end."""


def neutts_prompt(tokens: TextTokens, _: FrontendConfig) -> ContinuedPrompt:
    """Its reference has the tokenizer encode the whole, which begins it as that has learned: Nano's with
    Llama's token, Air's with none."""
    return ContinuedPrompt(tokens, _BEFORE, _AFTER, is_opened=True)


def neutts_spelling(_: TextTokens, config: FrontendConfig) -> Spelling:
    return Espeak() if config.phonemes == ESPEAK else Ipa()


FAMILY = TokenFamily("neutts", neutts_prompt, neutts_spelling, least_tokens=_LEAST_TOKENS)
