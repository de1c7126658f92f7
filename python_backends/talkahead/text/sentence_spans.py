"""The sentences of a text as it is written, for talkers that read characters rather than phonemes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from talkahead.text.normalizer import Normalizer

_CLOSING = re.compile("[\"'”’»)\\]}」』）]*")
"""Belongs to the sentence that it follows."""


def sentence_spans(text: str, normalizer: Normalizer) -> Iterator[tuple[int, int]]:
    """First character and end of each sentence, in order, as they are asked for.

    Full stops of abbreviations and numbers end none. Between the spans lies white space alone, and in each of
    them stands a letter or a digit, if there is one in the text.
    """
    begin = end = 0
    for following in _ends(text, normalizer):
        if _says_something(text[begin:end]) and _says_something(text[end:following]):
            yield _trimmed(text, begin, end)
            begin = end
        end = following
    yield _trimmed(text, begin, len(text))


def _ends(text: str, normalizer: Normalizer) -> Iterator[int]:
    for token in normalizer.normalize(text):
        if token.is_end:
            closed = _CLOSING.match(text, token.end)
            yield closed.end() if closed else token.end
    yield len(text)


def _says_something(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _trimmed(text: str, begin: int, end: int) -> tuple[int, int]:
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())
