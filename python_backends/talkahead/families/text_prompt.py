"""Prompts in ids of an embedding table, with marks where the encoder knows more than the frontend."""

from __future__ import annotations

from typing import Protocol

from talkahead.families.text_tokens import TextTokens

VOICE, SPEECH = -2, -3
"""Units in whose place the encoder puts the words that call a named voice, and speech to go on like: a
reference's, or the named voice's stored one. -1 is no mark: what is wrong on purpose has it."""


class TextPrompt(Protocol):
    """What a family writes around a text."""

    def ids(self, text: str, said: str | None) -> list[int]:
        """The whole prompt of a part of a text, as it is spelled.

        Args:
            said: what is said in the reference or the stored speech, spelled alike; None for a voice without.
        """


class ContinuedPrompt:
    """What a voice says stands before the text, and its speech after the prompt, to be gone on with.

    Args:
        before, after: what stands around the words, with the checkpoint's own tokens written out.
        is_opened: the tokenizer's own opening comes first, where `before` does not write it out.
    """

    def __init__(self, tokens: TextTokens, before: str, after: str, *, is_opened: bool = False) -> None:
        self._tokens = tokens
        self._before = [*(tokens.opening if is_opened else ()), *tokens.ids(before)]
        self._after = [*tokens.ids(after), SPEECH]

    def ids(self, text: str, said: str | None) -> list[int]:
        words = self._tokens.ids(text if said is None else f"{said} {text}")
        return [*self._before, *words, *self._after]
