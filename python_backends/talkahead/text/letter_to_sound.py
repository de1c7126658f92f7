"""Pronunciations of unknown words, by gruut's conditional random field over letters (MIT)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from functools import cache
from importlib.resources import as_file, files

import pycrfsuite

ARPABET: dict[str, str] = {
    "ɑ": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "aʊ": "AW", "aɪ": "AY", "ɛ": "EH", "ɚ": "ER",
    "eɪ": "EY", "ɪ": "IH", "i": "IY", "oʊ": "OW", "ɔɪ": "OY", "ʊ": "UH", "u": "UW",
    "b": "B", "t͡ʃ": "CH", "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "h": "HH", "d͡ʒ": "JH", "k": "K", "l": "L",
    "m": "M", "n": "N", "ŋ": "NG", "p": "P", "ɹ": "R", "s": "S", "ʃ": "SH", "t": "T", "θ": "TH", "v": "V",
    "w": "W", "j": "Y", "z": "Z", "ʒ": "ZH",
}  # fmt: skip
_STRESS = {"ˈ": "1", "ˌ": "2"}
_CONTEXT = 3
"""Letters seen on each side; fixed by the model's training."""


@cache
def arpabet(ipa: str) -> str:
    """One ARPAbet symbol for one of gruut's IPA phonemes ("ˈoʊ" -> "OW1")."""
    symbol = ARPABET[ipa.lstrip("ˈˌ")]
    return symbol + _STRESS.get(ipa[0], "0") if symbol[0] in "AEIOU" else symbol


class LetterToSound:
    """Guesses ARPAbet symbols letter by letter."""

    def __init__(self) -> None:
        self._tagger = pycrfsuite.Tagger()
        with as_file(files("gruut_lang_en") / "g2p" / "model.crf") as path:
            self._tagger.open(str(path))

    def pronounce(self, word: str) -> tuple[str, ...]:
        """ARPAbet symbols of a lower-case word of ASCII letters; may be empty."""
        labels = self._tagger.tag([_features(word, index) for index in range(len(word))])
        return tuple(symbol for label in labels for symbol in _decode(label))


def _features(word: str, index: int) -> dict[str, str | bool | float]:
    features: dict[str, str | bool | float] = {"bias": 1.0, "grapheme": _encode(word[index])}
    if index == 0:
        features["begin"] = True
    if index == len(word) - 1:
        features["end"] = True
    for distance in range(1, _CONTEXT + 1):
        if index >= distance:
            features[f"grapheme-{distance}"] = _encode(word[index - distance])
        if index + distance < len(word):
            features[f"grapheme+{distance}"] = _encode(word[index + distance])
    return features


@cache
def _encode(letter: str) -> str:
    return b64encode(letter.encode()).decode("ascii")


@cache
def _decode(label: str) -> tuple[str, ...]:
    phonemes = b64decode(label).decode().split("|")
    return tuple(arpabet(ipa) for ipa in phonemes if ipa != "_")
