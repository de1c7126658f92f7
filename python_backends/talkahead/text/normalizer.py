"""Written text to spoken words, each with its place in the original."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Token:
    """A lower-case spoken word or one of the pauses , . ? ! with the characters it was written in."""

    text: str
    start: int
    end: int

    @property
    def is_pause(self) -> bool:
        return self.text in _PAUSES


_PAUSES = frozenset(",.?!")
_TOKEN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*'?|[.,?!;:]+|\d+")
_PAUSE_OF = {";": ",", ":": ","}


class Normalizer:
    """Splits text into spoken words and pauses."""

    def normalize(self, text: str) -> list[Token]:
        tokens = []
        for match in _TOKEN.finditer(text.replace("’", "'")):
            written = match[0]
            spoken = _PAUSE_OF.get(written[0], written[0]) if written[0] in ".,?!;:" else written.lower()
            tokens.append(Token(spoken, match.start(), match.end()))
        return tokens
