"""Word errors, where a recogniser is at hand."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from instruments.recording import Recording


def word_errors(texts: Sequence[str], recordings: Sequence[Path]) -> float | None:
    """In percent of all words; None where what hears is not installed (extra `train`)."""
    try:
        ear = import_module("instruments.measures.ear").Ear()
        counted = import_module("instruments.measures.word_errors")
    except ImportError:
        return None
    return float(counted.word_error_percent(ear.errors(texts, map(Recording.read, recordings))))
