"""Text to segments: what the encoder reads and the teacher speaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from talkahead.text.normalizer import Normalizer, Token
from talkahead.text.pronouncer import Pronouncer
from talkahead.text.prosody import ProsodyPredictor, RuleProsody, SpokenWord
from talkahead.text.symbols import COMMA, PERIOD, SYMBOL_IDS

MAX_SEGMENT_SYMBOLS = 160


@dataclass(frozen=True)
class TextSegment:
    """A sentence or a clause of one, ready to be spoken."""

    words: str
    """Normalised words and the pauses , . ? ! in lower case."""
    symbols: npt.NDArray[np.int32]
    """[T, 4]: phoneme id, then levels of prosodic word, phonological phrase, intonational phrase (each 0..7)."""
    char_start: int
    char_end: int
    """The characters of the client's text that this segment speaks."""


class TextFrontend:
    """Text to segments of at most MAX_SEGMENT_SYMBOLS symbols."""

    def __init__(self, prosody: ProsodyPredictor | None = None) -> None:
        self._normalizer = Normalizer()
        self._pronouncer = Pronouncer()
        self._prosody = prosody or RuleProsody()

    def segments(self, text: str) -> list[TextSegment]:
        return list(self.iter_segments(text))

    def iter_segments(self, text: str) -> Iterator[TextSegment]:
        tokens = self._normalizer.normalize(text)
        spoken = self._pronouncer.pronounce_all([token.text for token in tokens])
        pending: list[tuple[Token, SpokenWord]] = []
        for token, symbols in zip(tokens, spoken, strict=True):
            if not symbols or (token.is_pause and (not pending or pending[-1][1].is_pause)):
                continue
            size = sum(len(word.symbols) for _, word in pending)
            if size + len(symbols) > MAX_SEGMENT_SYMBOLS - 1:
                yield self._segment(pending, COMMA)
                pending = []
            pending.append((token, SpokenWord(token.text, symbols, token.is_pause)))
            if token.text in ".?!":
                yield self._segment(pending, PERIOD)
                pending = []
        if pending:
            yield self._segment(pending, PERIOD)

    def _segment(self, spoken: Sequence[tuple[Token, SpokenWord]], closing: str) -> TextSegment:
        words = [word for _, word in spoken]
        if not words[-1].is_pause:
            words.append(SpokenWord(closing, (SYMBOL_IDS[closing],), True))
        phonemes = np.array([symbol for word in words for symbol in word.symbols], np.int32)  # (T,)
        symbols = np.concatenate((phonemes[:, None], self._prosody.predict(words)), axis=1)  # (T, 4)
        return TextSegment(_written(words), symbols, spoken[0][0].start, spoken[-1][0].end)


def _written(words: Sequence[SpokenWord]) -> str:
    return "".join(word.text if word.is_pause else f" {word.text}" for word in words).strip()
