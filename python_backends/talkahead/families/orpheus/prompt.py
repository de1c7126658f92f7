"""Orpheus' prompt: a human says a name and a text, and the model speaks."""

from __future__ import annotations

from talkahead.families.text_prompt import SPEECH, VOICE
from talkahead.families.text_tokens import TextTokens

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
_HUMAN = "<custom_token_3><|begin_of_text|>"
_SPEAKS = "<|eot_id|><custom_token_4><custom_token_5><custom_token_1>"
_SPOKEN = "<custom_token_2><custom_token_6>"
"""Ends of speech and of the model's turn."""


def called(name: str) -> str:
    """What a named voice is called by, before the text and a space."""
    return f"{name}:"


class OrpheusPrompt:
    """`TextPrompt` of Orpheus. A reference is a turn of its own before the text's, as a pretrained checkpoint
    is prompted; one that was tuned to named voices has not learned from such pairs."""

    def __init__(self, tokens: TextTokens) -> None:
        self._tokens = tokens
        self._human, self._speaks = tokens.ids(_HUMAN), tokens.ids(_SPEAKS)
        self._spoken = tokens.ids(_SPOKEN)

    def ids(self, text: str, said: str | None) -> list[int]:
        if said is None:
            return self._turn([VOICE, *self._tokens.ids(f" {text}")])
        reference = [*self._turn(self._tokens.ids(said)), SPEECH, *self._spoken]
        return [*reference, *self._turn(self._tokens.ids(text))]

    def _turn(self, words: list[int]) -> list[int]:
        return [*self._human, *words, *self._speaks]
