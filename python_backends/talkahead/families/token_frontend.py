"""Text to segments of a tokenizer's ids: as many sentences in each as there is room to speak."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from talkahead.errors import ArtifactMismatch, BadRequest
from talkahead.families.contracts import Segment
from talkahead.families.spelling import Spelling
from talkahead.families.text_prompt import TextPrompt
from talkahead.speech_format import SpeechFormat
from talkahead.text.frontend import BLANK_LINE, CLAUSE_PAUSE_S, PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S
from talkahead.text.lexicon import Lexicon
from talkahead.text.normalizer import Normalizer
from talkahead.text.sentence_spans import sentence_spans

SLOWEST_BYTES_PER_S = 8
"""Of UTF-8, read slowly: English has about 15 characters in a second, Chinese 4 of three bytes."""
_BYTES_OF_A_DIGIT = 6
"""As it is spoken: "seven" and a space."""
_SHORTEST_BYTES = 40
"""A segment has room for so many at least, or a text would be cut within its words."""
_TELLING_BYTES = 30
"""Two seconds, in which a speaker can be heard."""
_SENTENCE_END = re.compile("[.!?…。！？][\"'”’»)\\]}」』）]*$")
_CLAUSE_END = re.compile(r"[,;:—–](?=\s)|[，；：、]")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class _Size:
    """Positions that a piece may take with its prompt.

    Args:
        together: of several sentences.
        alone: of one, before it is cut.
        is_opening: of the piece that makes the speaker of those after it.
    """

    together: int
    alone: int
    is_opening: bool = False


class TokenFrontend:
    """A `Frontend`; units are ids and marks of `text_prompt`.

    A segment's prompt and its speech, read slowly, fit the format's `segment_positions`; a longer sentence is
    cut at a clause, at a space, or where there is none anywhere.

    Where nothing fixes the voice, later segments are spoken like the first one, the opening, as if that were
    a recording: its words stand in their prompts, and the talker puts its speech after them. It takes what a
    recording may, or, where its first sentence is longer, up to half of all positions; others have the rest.
    """

    def __init__(self, prompt: TextPrompt, spelling: Spelling, speech: SpeechFormat) -> None:
        self._prompt, self._spelling = prompt, spelling
        self._normalizer = Normalizer(Lexicon())
        self._steps_per_byte = speech.frames_per_s * speech.steps_per_frame / SLOWEST_BYTES_PER_S
        self._speech, self._positions = speech, speech.segment_positions
        self._bare = len(prompt.ids("", None))
        needed = self._bare + math.ceil(_SHORTEST_BYTES * (1 + self._steps_per_byte))
        if needed > self._positions:
            raise ArtifactMismatch(
                f"segment_positions is {self._positions}; at least {needed}: a prompt of {_SHORTEST_BYTES} "
                "characters and their speech"
            )

    def segments(self, text: str, said: str | None = None, *, is_fixed: bool = True) -> Iterator[Segment]:
        self._admit(text, "TEXT")
        size = _Size(self._positions, self._positions)
        if said is None and not is_fixed:
            size = self._opening() or size
        return self._segments(text, size, None if said is None else self._words(said))

    def units_of(self, said: str) -> int:
        return self._added_by(self._words(said))

    def _added_by(self, words: str) -> int:
        """Rows that they add to a prompt which goes on from them."""
        return len(self._prompt.ids("", words)) - self._bare

    def _opening(self) -> _Size | None:
        """None where there is no room for one beside a segment that is not cut within its words."""
        alone = min(self._speech.max_positions // 2, self._positions)
        if self._positions_of("a" * _SHORTEST_BYTES) > alone:
            return None
        recording = self._speech.max_positions - self._positions + self._bare
        return _Size(min(recording, alone), alone, is_opening=True)

    def _taken_by(self, opening: str) -> int:
        """Positions that its words and its speech are given in later segments."""
        recording = self._speech.max_positions - self._positions
        return max(self._positions_of(opening) - self._bare, recording)

    def _admit(self, text: str, field: str) -> None:
        try:
            self._spelling.admit(text)
        except BadRequest as error:
            raise BadRequest(field, error.value, error.allowed) from error

    def _words(self, said: str) -> str:
        """What is said in a reference, spelled."""
        self._admit(said, "REFERENCE_TEXT")
        return self._spelling.spell(said.strip())

    def _segments(self, text: str, size: _Size, said: str | None) -> Iterator[Segment]:
        recall = 0
        for piece, following in pairwise(chain(self._pieces(text, size), (None,))):
            if not piece:
                return
            begin, end = piece
            words = self._spelling.spell(text[begin:end])
            units = np.array(self._prompt.ids(words, said), np.int32)[:, None]
            pause_s = _pause_s(text, end, following[0]) if following else 0.0
            yield Segment(units, begin, end, pause_s, recall=recall)
            if size.is_opening and said is None:
                said, steps = words, self._speech.steps_per_frame
                recall = (self._taken_by(text[begin:end]) - self._added_by(words)) // steps * steps

    def _pieces(self, text: str, size: _Size) -> Iterator[tuple[int, int]]:
        """Sentences, as many in a piece as fit; a paragraph begins one."""
        begin = end = 0
        for first, last in sentence_spans(text, self._normalizer):
            if end and self._ends(text, begin, end, (first, last), size):
                for piece in self._fitting(text, begin, end, size.alone):
                    yield piece
                    size = self._beside(size, text[slice(*piece)])
                end = 0
            begin, end = begin if end else first, last
        yield from self._fitting(text, begin, end, size.alone)

    def _ends(self, text: str, begin: int, end: int, following: tuple[int, int], size: _Size) -> bool:
        """Whether a piece ends before the sentence that follows. An opening tells who speaks: a title alone,
        or a greeting, would not."""
        if size.is_opening and _spoken_bytes(text[begin:end]) < _TELLING_BYTES:
            return False
        first, last = following
        is_paragraph = BLANK_LINE.search(text, end, first) is not None
        return is_paragraph or self._positions_of(text[begin:last]) > size.together

    def _beside(self, size: _Size, piece: str) -> _Size:
        """Of a piece after one of a size."""
        if not size.is_opening:
            return size
        rest = self._speech.max_positions - self._taken_by(piece)
        return _Size(rest, rest)

    def _fitting(self, text: str, begin: int, end: int, most: int) -> Iterator[tuple[int, int]]:
        """A piece, or what it must be cut into; what says nothing is left out."""
        part = text[begin:end]
        if not any(character.isalnum() for character in part):
            return
        if end - begin < 2 or self._positions_of(part) <= most:
            yield begin, end
            return
        cut = begin + _best_cut(part)
        yield from self._fitting(text, begin, begin + len(text[begin:cut].rstrip()), most)
        yield from self._fitting(text, end - len(text[cut:end].lstrip()), end, most)

    def _positions_of(self, part: str) -> int:
        """Of its prompt, and its speech, read slowly."""
        steps = math.ceil(_spoken_bytes(part) * self._steps_per_byte)
        return len(self._prompt.ids(self._spelling.spell(part), None)) + steps


def _spoken_bytes(text: str) -> int:
    digits = sum(character.isdigit() for character in text)
    return len(text.encode()) + (_BYTES_OF_A_DIGIT - 1) * digits


def _best_cut(text: str) -> int:
    """After a clause near the middle, else after a space, else in the middle."""
    middle, quarter = len(text) // 2, len(text) // 4
    clauses = [found.end() for found in _CLAUSE_END.finditer(text, quarter, len(text) - quarter)]
    spaces = [found.end() for found in _SPACE.finditer(text.rstrip(), 1)]
    return min(clauses or spaces or [middle], key=lambda place: abs(place - middle))


def _pause_s(text: str, end: int, following: int) -> float:
    """How long a reader stops between two pieces."""
    if BLANK_LINE.search(text, end, following):
        return PARAGRAPH_PAUSE_S
    if _SENTENCE_END.search(text, max(0, end - 8), end):
        return SENTENCE_PAUSE_S
    return CLAUSE_PAUSE_S if _CLAUSE_END.search(text, end - 1, end + 1) else 0.0
