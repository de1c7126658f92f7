"""Llasa: text as it is written, in the chat template of the Llama that it was tuned from."""

from __future__ import annotations

from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.spelling import AsWritten
from talkahead.families.text_prompt import ContinuedPrompt
from talkahead.families.text_tokens import TextTokens
from talkahead.families.token_family import TokenFamily


def llasa_prompt(tokens: TextTokens, config: FrontendConfig) -> ContinuedPrompt:
    return ContinuedPrompt(tokens, config.before, config.after)


FAMILY = TokenFamily("llasa", llasa_prompt, lambda tokens, _: AsWritten(tokens))
