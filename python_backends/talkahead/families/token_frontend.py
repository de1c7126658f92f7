"""Text to segments of a tokenizer's ids: as many sentences in each as there is room to speak."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
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
_SENTENCE_END = re.compile("[.!?…。！？][\"'”’»)\\]}」』）]*$")
_CLAUSE_END = re.compile(r"[,;:—–](?=\s)|[，；：、]")
_SPACE = re.compile(r"\s+")


class TokenFrontend:
    """A `Frontend`; units are ids and marks of `text_prompt`.

    A segment's prompt and its speech, read slowly, fit the format's `segment_positions`; a longer sentence is
    cut at a clause, at a space, or where there is none anywhere.
    """

    def __init__(self, prompt: TextPrompt, spelling: Spelling, speech: SpeechFormat) -> None:
        self._prompt, self._spelling = prompt, spelling
        self._normalizer = Normalizer(Lexicon())
        self._steps_per_byte = speech.frames_per_s * speech.steps_per_frame / SLOWEST_BYTES_PER_S
        self._positions = speech.segment_positions
        needed = len(prompt.ids("", None)) + math.ceil(_SHORTEST_BYTES * (1 + self._steps_per_byte))
        if needed > self._positions:
            raise ArtifactMismatch(
                f"segment_positions is {self._positions}; at least {needed}: a prompt of {_SHORTEST_BYTES} "
                "characters and their speech"
            )

    def segments(self, text: str, said: str | None = None) -> Iterator[Segment]:
        self._admit(text, "TEXT")
        return self._segments(text, None if said is None else self._words(said))

    def units_of(self, said: str) -> int:
        return len(self._prompt.ids("", self._words(said))) - len(self._prompt.ids("", None))

    def _admit(self, text: str, field: str) -> None:
        try:
            self._spelling.admit(text)
        except BadRequest as error:
            raise BadRequest(field, error.value, error.allowed) from error

    def _words(self, said: str) -> str:
        """What is said in a reference, spelled."""
        self._admit(said, "REFERENCE_TEXT")
        return self._spelling.spell(said.strip())

    def _segments(self, text: str, said: str | None) -> Iterator[Segment]:
        for piece, following in pairwise(chain(self._pieces(text), (None,))):
            if piece:
                begin, end = piece
                ids = self._prompt.ids(self._spelling.spell(text[begin:end]), said)
                pause_s = _pause_s(text, end, following[0]) if following else 0.0
                yield Segment(np.array(ids, np.int32)[:, None], begin, end, pause_s)

    def _pieces(self, text: str) -> Iterator[tuple[int, int]]:
        """Sentences, as many in a piece as fit; a paragraph begins one."""
        begin = end = 0
        for first, last in sentence_spans(text, self._normalizer):
            if end and (BLANK_LINE.search(text, end, first) or not self._fits(text[begin:last])):
                yield from self._fitting(text, begin, end)
                end = 0
            begin, end = begin if end else first, last
        yield from self._fitting(text, begin, end)

    def _fitting(self, text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """A piece, or what it must be cut into; what says nothing is left out."""
        part = text[begin:end]
        if not any(character.isalnum() for character in part):
            return
        if end - begin < 2 or self._fits(part):
            yield begin, end
            return
        cut = begin + _best_cut(part)
        yield from self._fitting(text, begin, begin + len(text[begin:cut].rstrip()))
        yield from self._fitting(text, end - len(text[cut:end].lstrip()), end)

    def _fits(self, part: str) -> bool:
        steps = math.ceil(_spoken_bytes(part) * self._steps_per_byte)
        return len(self._prompt.ids(self._spelling.spell(part), None)) + steps <= self._positions


def _spoken_bytes(text: str) -> int:
    digits = sum(character.isdigit() for character in text)
    return len(text.encode()) + (_BYTES_OF_A_DIGIT - 1) * digits


def _best_cut(text: str) -> int:
    """Behind a clause near the middle, else behind a space, else in the middle."""
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
