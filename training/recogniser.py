"""Word errors by an independent recogniser: pocketsphinx's English acoustic model, with a bigram language
model of the evaluation texts, so that the teacher scores low and what is skipped, repeated or blurred shows.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pocketsphinx
from rapidfuzz.distance import Levenshtein
from talkahead.text import TextFrontend
from talkahead.text.symbols import SYMBOLS

_DISCOUNT = 0.6


def words_of(text: str) -> list[str]:
    """Words of a normalised text, without punctuation."""
    return re.findall(r"[a-z']+", text.lower())


def bigram_model(sentences: Sequence[Sequence[str]]) -> str:
    """A bigram model with absolute discounting, in ARPA format."""
    padded = [["<s>", *sentence, "</s>"] for sentence in sentences]
    unigrams = Counter(word for sentence in padded for word in sentence)
    bigrams = Counter(pair for sentence in padded for pair in pairwise(sentence))
    followers = Counter(first for first, _ in bigrams)
    begun = Counter(first for sentence in padded for first in sentence[:-1])
    total = sum(unigrams.values())
    lines = ["\\data\\", f"ngram 1={len(unigrams)}", f"ngram 2={len(bigrams)}", "", "\\1-grams:"]
    for word, count in sorted(unigrams.items()):
        backoff = _DISCOUNT * followers[word] / begun[word] if begun[word] else 1.0
        lines.append(f"{math.log10(count / total):.5f} {word} {math.log10(backoff):.5f}")
    lines += ["", "\\2-grams:"]
    for (first, second), count in sorted(bigrams.items()):
        share = (count - _DISCOUNT) / begun[first] + _DISCOUNT * followers[first] / begun[first] * unigrams[
            second
        ] / total
        lines.append(f"{math.log10(share):.5f} {first} {second}")
    return "\n".join([*lines, "", "\\end\\", ""])


@dataclass(frozen=True)
class WordErrors:
    """Edits between what was asked and what was heard, and the number of words asked."""

    edits: int
    words: int
    heard: str


class Recogniser:
    """Hears evaluation texts. `texts` are normalised words; the language model knows exactly these."""

    def __init__(self, texts: Sequence[str]) -> None:
        sentences = [words_of(text) for text in texts]
        with tempfile.TemporaryDirectory() as folder:
            model, dictionary = Path(folder) / "texts.lm", Path(folder) / "texts.dict"
            model.write_text(bigram_model(sentences))
            dictionary.write_text(self._dictionary({word for sentence in sentences for word in sentence}))
            self._decoder = pocketsphinx.Decoder(
                hmm=pocketsphinx.get_model_path("en-us/en-us"),
                lm=str(model),
                dict=str(dictionary),
                loglevel="FATAL",
            )

    @staticmethod
    def _dictionary(words: set[str]) -> str:
        known: dict[str, str] = {}
        for line in Path(pocketsphinx.get_model_path("en-us/cmudict-en-us.dict")).read_text().splitlines():
            word, phones = line.split(" ", 1)
            if re.sub(r"\(\d+\)$", "", word) in words:
                known[word] = phones
        frontend = TextFrontend()
        for word in words - known.keys():
            symbols = [
                SYMBOLS[index] for segment in frontend.segments(word) for index in segment.symbols[:, 0]
            ]
            known[word] = " ".join(symbol.rstrip("012") for symbol in symbols if symbol[0].isalpha())
        return "".join(f"{word} {phones}\n" for word, phones in sorted(known.items()))

    def hear(self, audio: npt.NDArray[np.int16]) -> str:
        """The words heard in 16 kHz audio [N]."""
        quiet = np.zeros(1600, dtype=np.int16)
        self._decoder.start_utt()
        self._decoder.process_raw(np.concatenate([quiet, audio, quiet]).tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return re.sub(r"\(\d+\)", "", hypothesis.hypstr) if hypothesis else ""

    def errors(self, asked: str, audio: npt.NDArray[np.int16]) -> WordErrors:
        heard = self.hear(audio)
        asked_words = words_of(asked)
        return WordErrors(Levenshtein.distance(asked_words, words_of(heard)), len(asked_words), heard)
