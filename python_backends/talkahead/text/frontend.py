"""Text to segments: what the encoder reads and the teacher speaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from talkahead.text.admission import admit
from talkahead.text.lexicon import Lexicon
from talkahead.text.normalizer import Normalizer, Token
from talkahead.text.pronouncer import Pronouncer
from talkahead.text.prosody import ProsodyPredictor, RuleProsody, SpokenWord
from talkahead.text.segmenter import cuts, sentences
from talkahead.text.symbols import COMMA, PERIOD, SYMBOL_IDS
from talkahead.text.word_places import WordPlace, word_places

MAX_SEGMENT_SYMBOLS = 160
FIRST_SEGMENT_SYMBOLS = 100
"""Of a text longer than LONG_TEXT_CHARACTERS, so that its first chunk is early."""
LONG_TEXT_CHARACTERS = 500

PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S, CLAUSE_PAUSE_S = 0.6, 0.35, 0.12
_CLOSING = frozenset(")]}|")
"""Pauses inside a sentence only, not at the end of the text."""
BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class TextSegment:
    """A sentence or a clause of one, ready to be spoken."""

    words: str
    """Normalised words and the pauses , . ? ! in lower case."""
    symbols: npt.NDArray[np.int32]
    """[T, 4]: phoneme id, then the levels of prosodic word, phonological phrase and intonational phrase."""
    char_start: int
    char_end: int
    """The characters of the client's text that this segment speaks."""
    pause_s: float = 0.0
    """Silence to add after the segment, in seconds; 0.0 after the last one."""
    spoken: tuple[SpokenWord, ...] = ()
    """The words and pauses, each with its phonemes: what a teacher is told."""
    places: tuple[WordPlace, ...] = ()
    """Where in the text, and where in the symbols, each written word and each pause begins."""


@dataclass(frozen=True)
class _Piece:
    """The tokens of a segment, and their words with symbols."""

    tokens: Sequence[Token]
    words: Sequence[SpokenWord]


class TextFrontend:
    """Text to segments of at most MAX_SEGMENT_SYMBOLS symbols; a text may have marks (`inline_marks`)."""

    def __init__(self, prosody: ProsodyPredictor | None = None) -> None:
        lexicon = Lexicon()
        self._normalizer = Normalizer(lexicon)
        self._pronouncer = Pronouncer(lexicon)
        self._prosody = prosody or RuleProsody()

    def segments(self, text: str) -> list[TextSegment]:
        """Every segment of the text; at least one.

        Raises:
            BadRequest: the text cannot be spoken.
        """
        return list(self.iter_segments(text))

    def iter_segments(self, text: str) -> Iterator[TextSegment]:
        """Segments as they are asked for; whatever is refused is refused by this call, before the first one.

        Raises:
            BadRequest: the text cannot be spoken.
        """
        admit(text)
        return self._segments(text)

    def words(self, text: str) -> list[str]:
        """The normalised words of a text, without pauses and phonemes: cheaper than `segments`.

        Raises:
            BadRequest: the text cannot be spoken.
        """
        admit(text)
        return [token.text for token in self._normalizer.normalize(text) if not token.is_pause]

    def spoken(self, text: str) -> list[SpokenWord]:
        """The words and pauses of a text that has been admitted, uncut and without prosody."""
        return self._spoken(list(self._normalizer.normalize(text)))

    def _segments(self, text: str) -> Iterator[TextSegment]:
        for piece, following in pairwise(chain(self._pieces(text), (None,))):
            if piece:
                yield self._segment(text, piece, following)

    def _pieces(self, text: str) -> Iterator[_Piece]:
        limit = FIRST_SEGMENT_SYMBOLS if len(text) > LONG_TEXT_CHARACTERS else MAX_SEGMENT_SYMBOLS
        for tokens in sentences(self._normalizer.normalize(text)):
            words = self._spoken(tokens)
            for begin, end in pairwise((0, *cuts(words, limit))):
                yield _Piece(tokens[begin:end], words[begin:end])
            limit = MAX_SEGMENT_SYMBOLS

    def _spoken(self, tokens: Sequence[Token]) -> list[SpokenWord]:
        texts = [token.text for token in tokens]
        given = {index: token.phonemes for index, token in enumerate(tokens) if token.phonemes}
        symbols = self._pronouncer.pronounce_all(texts, given)
        return [
            SpokenWord(token.text, ids, token.is_pause) for token, ids in zip(tokens, symbols, strict=True)
        ]

    def _segment(self, text: str, piece: _Piece, following: _Piece | None) -> TextSegment:
        words, tokens = piece.words, piece.tokens
        if not following and text[tokens[-1].start] in _CLOSING:
            words = words[:-1]
        if not words[-1].is_pause:
            closing = COMMA if following else PERIOD
            words = [*words, SpokenWord(closing, (SYMBOL_IDS[closing],), True)]
        phonemes = np.array([symbol for word in words for symbol in word.symbols], np.int32)  # (T,)
        symbols = np.column_stack((phonemes, self._prosody.predict(words)))  # (T, 4)
        pause_s = _pause_s(text, piece, following) if following else 0.0
        places = tuple(word_places(text, tokens, words))
        return TextSegment(
            _written(words), symbols, tokens[0].start, tokens[-1].end, pause_s, tuple(words), places
        )


def _pause_s(text: str, piece: _Piece, following: _Piece) -> float:
    """How long a reader stops after a piece, by its last mark and the blank lines before the next."""
    last = piece.tokens[-1]
    if BLANK_LINE.search(text, last.start, following.tokens[0].start):
        return PARAGRAPH_PAUSE_S
    if last.is_end:
        return SENTENCE_PAUSE_S
    return CLAUSE_PAUSE_S if last.is_pause else 0.0


def _written(words: Sequence[SpokenWord]) -> str:
    return "".join(word.text if word.is_pause else f" {word.text}" for word in words)[1:]
