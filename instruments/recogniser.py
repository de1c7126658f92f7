"""Word errors by an independent recogniser: pocketsphinx's English acoustic model, with a bigram language
model of the evaluation texts, so that the teacher scores low and what is skipped, repeated or blurred shows.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pocketsphinx
from rapidfuzz.distance import Levenshtein
from talkahead.text import TextFrontend
from talkahead.text.symbols import SYMBOLS

from instruments.language_model import bigram_model, words_of
from instruments.teacher import VOICES, Teacher

_QUIET = 1600
"""Samples of silence on either side, which the acoustic model expects."""
_FRAME = 160
_TEXTS, _GRAMMAR = "texts", "grammar"


@dataclass(frozen=True)
class WordErrors:
    """Edits between what was asked and what was heard, and the number of words asked."""

    edits: int
    words: int
    heard: str


@dataclass(frozen=True)
class HeardWord:
    """A word and its samples [start, stop)."""

    word: str
    start: int
    stop: int


@dataclass(frozen=True)
class Transition:
    """An edge of a grammar between two numbered states; without a word it takes no time."""

    source: int
    target: int
    probability: float
    word: str | None = None


class Recogniser:
    """Hears evaluation texts.

    Args:
        texts: normalised words; the language model knows exactly these.
        teacher: whose pronunciations of rare words count as right beside the frontend's.
    """

    def __init__(self, texts: Sequence[str], teacher: Teacher | None = None) -> None:
        sentences = [words_of(text) for text in texts]
        words = {word for sentence in sentences for word in sentence}
        with tempfile.TemporaryDirectory() as folder:
            model, dictionary = Path(folder) / "texts.lm", Path(folder) / "texts.dict"
            model.write_text(bigram_model(sentences))
            dictionary.write_text(_pronunciations(words, teacher))
            self._decoder = pocketsphinx.Decoder(
                hmm=pocketsphinx.get_model_path("en-us/en-us"),
                lm=None,
                dict=str(dictionary),
                loglevel="FATAL",
                cmn="batch",
            )
            self._decoder.add_lm_file(_TEXTS, str(model))

    def hear(self, audio: npt.NDArray[np.int16]) -> str:
        """The words heard in 16 kHz audio [N]."""
        self._decoder.activate_search(_TEXTS)
        return " ".join(heard.word for heard in self._decode(audio))

    def errors(self, asked: str, audio: npt.NDArray[np.int16]) -> WordErrors:
        heard = self.hear(audio)
        asked_words = words_of(asked)
        return WordErrors(Levenshtein.distance(asked_words, words_of(heard)), len(asked_words), heard)

    def follow(
        self, transitions: Sequence[Transition], final: int, audio: npt.NDArray[np.int16]
    ) -> list[HeardWord]:
        """The best path through a grammar from state 0 to state `final`; empty when there is none."""
        edges = [
            (edge.source, edge.target, edge.probability, *([edge.word] if edge.word else []))
            for edge in transitions
        ]
        self._decoder.add_fsg(_GRAMMAR, self._decoder.create_fsg(_GRAMMAR, 0, final, edges))
        self._decoder.activate_search(_GRAMMAR)
        return self._decode(audio)

    def _decode(self, audio: npt.NDArray[np.int16]) -> list[HeardWord]:
        quiet = np.zeros(_QUIET, dtype=np.int16)
        self._decoder.start_utt()
        self._decoder.process_raw(np.concatenate([quiet, audio, quiet]).tobytes(), full_utt=True)
        self._decoder.end_utt()
        if self._decoder.hyp() is None:
            return []
        return [
            HeardWord(
                re.sub(r"\(\d+\)", "", segment.word),
                max(0, segment.start_frame * _FRAME - _QUIET),
                min(len(audio), (segment.end_frame + 1) * _FRAME - _QUIET),
            )
            for segment in self._decoder.seg()
            if segment.word[0].isalpha() or segment.word[0] == "'"
        ]


def _pronunciations(words: set[str], teacher: Teacher | None) -> str:
    """A dictionary of the words: CMUdict's, else the frontend's and, where there is one, the teacher's."""
    lines, known = [], set()
    for line in Path(pocketsphinx.get_model_path("en-us/cmudict-en-us.dict")).read_text().splitlines():
        word = re.sub(r"\(\d+\)$", "", line.split(" ", 1)[0])
        if word in words:
            lines.append(line)
            known.add(word)
    frontend = TextFrontend()
    for word in sorted(words - known):
        symbols = [SYMBOLS[index] for segment in frontend.segments(word) for index in segment.symbols[:, 0]]
        phones = " ".join(symbol.rstrip("012") for symbol in symbols if symbol[0].isalpha())
        lines.append(f"{word} {phones}")
        if teacher and (other := _taught(teacher, word)) != phones:
            lines.append(f"{word}(2) {other}")
    return "".join(f"{line}\n" for line in lines)


def _taught(teacher: Teacher, word: str) -> str:
    """How the teacher says a word, in CMUdict's phones."""
    spoken = (phone.name for phone in teacher.speak(word, VOICES[0]).phones)
    return " ".join("AH" if name == "ax" else name.upper() for name in spoken)
