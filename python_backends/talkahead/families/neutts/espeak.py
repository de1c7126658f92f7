"""Phonemes as NeuTTS has read them in training: by espeak, which is under GPL and comes with no part of this.

Asked for when a checkpoint is imported (`--phonemes espeak`), by those who have installed it.
"""

from __future__ import annotations

from importlib import import_module

from talkahead.errors import TalkaheadError
from talkahead.text.admission import admit_as_written


class Espeak:
    """The `Spelling` of NeuTTS by PyPI's phonemizer, with the options of its reference code."""

    def __init__(self) -> None:
        try:
            backend = import_module("phonemizer.backend").EspeakBackend
            self._backend = backend(
                language="en-us",
                preserve_punctuation=True,
                with_stress=True,
                # Foreign words would have their language's name in parentheses, to be read as phonemes.
                language_switch="remove-flags",
                words_mismatch="ignore",
            )
        except (ImportError, RuntimeError) as error:  # RuntimeError: the package is here, espeak is not
            raise TalkaheadError(
                f"espeak cannot be had ({error}), which this checkpoint was imported for; install it with: "
                "apt-get install espeak-ng; pip install phonemizer (both under GPL), or import the "
                "checkpoint anew with --phonemes own"
            ) from error

    def admit(self, text: str) -> None:
        admit_as_written(text)

    def spell(self, text: str) -> str:
        return " ".join(self._backend.phonemize([text])[0].split())
