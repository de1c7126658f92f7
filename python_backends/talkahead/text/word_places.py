"""Where the words of a text are, in the text and in what is spoken of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from talkahead.text.normalizer import Token
from talkahead.text.prosody import SpokenWord


@dataclass(frozen=True)
class WordPlace:
    """A word as it is written, or a pause.

    Args:
        start, end: its characters; a pause may have none.
        symbol: the first of its segment's symbols that speaks it.
    """

    start: int
    end: int
    symbol: int
    is_pause: bool


def word_places(text: str, tokens: Sequence[Token], words: Sequence[SpokenWord]) -> Iterator[WordPlace]:
    """Of a segment's tokens, and of the words spoken of them, which may lack the last or have a pause more.

    What is written in one word is one, however many are spoken of it: "10:30", or the year of a date. A pause
    that is not written, as in a date, has no characters.
    """
    symbols = [0, *accumulate(len(word.symbols) for word in words)]
    end = tokens[-1].end
    ahead: WordPlace | None = None
    for number, word in enumerate(words):
        start, beyond = (tokens[number].start, tokens[number].end) if number < len(tokens) else (end, end)
        before = start if ahead is None else ahead.end
        if word.is_pause and any(map(str.isalnum, text[start:beyond])):
            start = beyond = before
        if ahead is not None and not (ahead.is_pause or word.is_pause or _is_apart(text, before, start)):
            ahead = replace(ahead, end=beyond)
            continue
        if ahead is not None:
            yield _trimmed(text, ahead)
        start = start if word.is_pause else _begin_of_word(text, before, start)
        ahead = WordPlace(start, beyond, symbols[number], word.is_pause)
    if ahead is not None:
        yield _trimmed(text, ahead)


def _begin_of_word(text: str, before: int, start: int) -> int:
    """Where what is written in one word with a place begins, but not before what comes before."""
    while start > before and not text[start - 1].isspace():
        start -= 1
    return start


def _is_apart(text: str, end: int, start: int) -> bool:
    """Whether there is a space between two words."""
    return any(character.isspace() for character in text[max(end - 1, 0) : start + 1])


def _trimmed(text: str, place: WordPlace) -> WordPlace:
    """Without spaces at either end: words of one written form share its characters evenly, and its spaces."""
    written = text[place.start : place.end]
    start = place.start + len(written) - len(written.lstrip())
    return replace(place, start=start, end=max(place.start + len(written.rstrip()), start))
