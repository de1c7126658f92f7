"""A jump is sharp, a smooth passage is not, at any loudness."""

from __future__ import annotations

import numpy as np
import pytest
from signals import RATE_HZ, recording, silence, tone

from instruments.measures.joins import sharpness_db

TENTH = RATE_HZ // 10
HALF = RATE_HZ // 2


@pytest.mark.parametrize("level", [0.5, 0.005])
def test_a_jump_in_a_tone_is_a_click(level: float) -> None:
    assert np.abs(sharpness_db(recording(tone(level)), range(TENTH, 9 * TENTH, TENTH))).max() < 3
    jumped = tone(level)
    jumped[HALF:] += 0.2 * level
    sharpness = sharpness_db(recording(jumped), [3 * TENTH, HALF])
    assert abs(sharpness[0]) < 3
    assert sharpness[1] > 10


def test_a_step_in_silence_is_a_click() -> None:
    sound = silence(1.0)
    assert sharpness_db(recording(sound), [HALF]).tolist() == [0.0]
    sound[HALF:] = 0.003
    assert sharpness_db(recording(sound), [HALF])[0] > 20


def test_places_at_the_edges_cannot_be_judged() -> None:
    assert len(sharpness_db(recording(tone()), [0, 100, HALF, RATE_HZ - 100])) == 1
