"""How a talker wants its text written."""

from __future__ import annotations

from typing import Protocol

from talkahead.families.text_tokens import TextTokens
from talkahead.text.admission import admit_as_written


class Spelling(Protocol):
    """From a client's text to what the tokenizer reads."""

    def admit(self, text: str) -> None:
        """Raises BadRequest for what cannot be spelled."""

    def spell(self, text: str) -> str:
        """Some sentences, or a part of one, of a text that was admitted."""


class AsWritten:
    """For a talker that has learned from text itself."""

    def __init__(self, tokens: TextTokens) -> None:
        self._tokens = tokens

    def admit(self, text: str) -> None:
        admit_as_written(text)
        self._tokens.refuse_own(text)

    def spell(self, text: str) -> str:
        return text
