"""Pauses are found at the marks of a text, and are as long as they were made."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.text import TextFrontend

from instruments.measures.ear import Ear
from instruments.measures.pauses import PARAGRAPH, marks, pauses
from instruments.recording import Recording
from instruments.teacher import SAMPLE_RATE, Teacher

TEXT = "The juice of lemons, they say, makes fine punch. Would you like some?\n\nIt was late. We went home."


def test_marks_behind_words() -> None:
    found = list(marks(TextFrontend().segments(TEXT)))
    assert [mark for mark in found if mark] == [",", ",", ".", PARAGRAPH, ".", "."]
    assert found[3] == "," and found[-1] == "."


@pytest.mark.needs("flite")
def test_pauses_between_the_teachers_sentences() -> None:
    segments = TextFrontend().segments(TEXT)
    teacher = Teacher(edge_s=(0.0, 0.0))
    parts = [teacher.speak(segment.words, "slt").audio for segment in segments]
    lengths_s = (0.3, 0.7, 0.4)
    between = [np.zeros(round(length_s * SAMPLE_RATE), dtype=np.int16) for length_s in lengths_s]
    audio = np.concatenate(
        [parts[0], *(piece for pair in zip(between, parts[1:], strict=True) for piece in pair)]
    )
    found = pauses(Ear(), segments, Recording.of_int16(audio, SAMPLE_RATE))
    ends = [pause for pause in found if pause.mark != ","]
    assert [pause.mark for pause in ends] == [".", PARAGRAPH, "."]
    assert [pause.seconds for pause in ends] == pytest.approx(lengths_s, abs=0.1)
