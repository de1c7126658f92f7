"""Spoken words to segments: one sentence each, long ones cut where a speaker would take breath."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from talkahead.text.normalizer import Token
from talkahead.text.prosody import SpokenWord
from talkahead.text.word_list import FUNCTION_WORDS

MAX_SENTENCE_TOKENS = 120
"""Text without full stops is looked at in stretches of this many words and pauses."""
_SMALLEST_SHARE = 0.25
"""Of the limit: no piece is cut shorter while others can be."""
_AT_PAUSE, _AT_PHRASE = 1.0, 0.5
"""How much a cut there is worth, in limits of distance from an even cut."""


def sentences(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Groups tokens; each group begins with a word, and no two pauses are neighbours."""
    pending: list[Token] = []
    for token in tokens:
        if token.is_pause and (not pending or pending[-1].is_pause):
            if not (pending and token.is_end):
                continue
            pending.pop()
        pending.append(token)
        if token.is_end:
            yield pending
            pending = []
        elif len(pending) >= MAX_SENTENCE_TOKENS:
            end = _last_clause(pending)
            yield pending[:end]
            pending = pending[end:]
    if pending:
        yield pending


def _last_clause(tokens: Sequence[Token]) -> int:
    """Where the last clause begins, if more than half of the tokens stand before it; else the end."""
    half, end = len(tokens) // 2, len(tokens)
    return next((index for index in range(end, half, -1) if tokens[index - 1].is_pause), end)


def cuts(words: Sequence[SpokenWord], limit: int) -> list[int]:
    """Ends of the pieces, as indices into `words`, so that no piece has more than `limit` symbols.

    A piece that does not end in a pause leaves room for one.
    """
    sizes = [0, *accumulate(len(word.symbols) for word in words)]
    ends: list[int] = []
    begin = 0
    while sizes[-1] + (not words[-1].is_pause) - sizes[begin] > limit:
        begin = _best_cut(words, sizes, begin, limit)
        ends.append(begin)
    return [*ends, len(words)]


def _best_cut(words: Sequence[SpokenWord], sizes: Sequence[int], begin: int, limit: int) -> int:
    left = sizes[-1] - sizes[begin]
    target = left / -(-left // limit)
    best, best_worth = begin + 1, float("-inf")
    for end in range(begin + 1, len(words)):
        size = sizes[end] - sizes[begin] + (not words[end - 1].is_pause)
        if size > limit:
            break
        if words[end].is_pause:
            continue
        worth = _worth(words, end) - abs(size - target) / limit - (size < _SMALLEST_SHARE * limit)
        if worth > best_worth:
            best, best_worth = end, worth
    return best


def _worth(words: Sequence[SpokenWord], end: int) -> float:
    """How good a place before words[end] is to take breath."""
    if words[end - 1].is_pause:
        return _AT_PAUSE
    if words[end - 1].text in FUNCTION_WORDS:
        return -_AT_PHRASE
    return _AT_PHRASE if words[end].text in FUNCTION_WORDS else 0.0
