"""Speech is nearest to the voice that it was made of."""

from __future__ import annotations

import numpy as np
from signals import noise, vowel

from instruments.measures.likeness import Likeness, likeness


def test_the_nearest_of_two_voices() -> None:
    dark = np.concatenate([vowel(100, 0.4, tilt=2.0), noise(0.2)])
    bright = np.concatenate([noise(0.2), vowel(100, 0.4, tilt=0.2)])
    slower = np.concatenate([vowel(110, 0.6, tilt=2.0), noise(0.3, seed=1)])
    found = likeness(slower, {"bright": bright, "dark": dark})
    assert found.nearest_warped == found.nearest_averaged == "dark"
    assert found.warped_db["dark"] < 0.5 * found.warped_db["bright"]


def test_the_two_distances_may_disagree() -> None:
    found = Likeness({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 3.0})
    assert (found.nearest_warped, found.nearest_averaged) == ("a", "b")
