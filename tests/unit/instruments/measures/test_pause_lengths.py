"""Pauses are found at the marks of a text, and are as long as they were made."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.audio.speech_edges import speech_span
from talkahead.text import TextFrontend
from taught import segment_said

from instruments.measures.ear import Ear
from instruments.measures.pauses import PARAGRAPH, marks, pauses
from instruments.recording import Recording

TEXT = "The juice of lemons, they say, makes fine punch. Would you like some?\n\nIt was late. We went home."


def test_marks_behind_words() -> None:
    found = list(marks(TextFrontend().segments(TEXT)))
    assert [mark for mark in found if mark] == [",", ",", ".", PARAGRAPH, ".", "."]
    assert found[3] == "," and found[-1] == "."


def test_pauses_between_the_teachers_sentences() -> None:
    segments = TextFrontend().segments(TEXT)
    spoken = [segment_said(segment) for segment in segments]
    rate_hz = spoken[0].rate_hz
    parts = [one.samples[slice(*speech_span(one.samples, rate_hz))] for one in spoken]
    lengths_s = (0.3, 0.7, 0.4)
    between = [np.zeros(round(length_s * rate_hz), dtype=np.float32) for length_s in lengths_s]
    audio = np.concatenate(
        [parts[0], *(piece for pair in zip(between, parts[1:], strict=True) for piece in pair)]
    )
    found = pauses(Ear(), segments, Recording(audio, rate_hz))
    ends = [pause for pause in found if pause.mark != ","]
    assert [pause.mark for pause in ends] == [".", PARAGRAPH, "."]
    assert [pause.seconds for pause in ends] == pytest.approx(lengths_s, abs=0.1)
