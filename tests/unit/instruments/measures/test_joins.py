"""A jump is sharp, a smooth passage is not, at any loudness."""

from __future__ import annotations

import numpy as np
import pytest
from signals import int16, silence, times, vowel

from instruments.measures.joins import sharpness_db

PLACES = range(1_600, 14_400, 1_600)


@pytest.mark.parametrize("level", [0.5, 0.005])
def test_a_jump_in_a_tone_is_a_click(level: float) -> None:
    tone = level * np.sin(2 * np.pi * 200 * times(1.0))
    assert np.abs(sharpness_db(int16(tone), PLACES)).max() < 3
    jumped = tone.copy()
    jumped[8_000:] += 0.2 * level
    sharpness = sharpness_db(int16(jumped), [4_800, 8_000])
    assert abs(sharpness[0]) < 3
    assert sharpness[1] > 10


def test_a_step_in_silence_is_a_click() -> None:
    sound = silence(1.0)
    assert sharpness_db(sound, [8_000]).tolist() == [0.0]
    sound[8_000:] = 100
    assert sharpness_db(sound, [8_000])[0] > 20


def test_places_at_the_edges_cannot_be_judged() -> None:
    assert len(sharpness_db(vowel(100), [0, 100, 8_000, 15_900])) == 1
