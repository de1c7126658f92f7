"""Cross-fades keep the power of what they join, however alike the pieces are."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.families.cross_fade import cross_fade

COUNT = 48_000


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, COUNT).astype(np.float32)


def test_it_goes_from_one_to_the_other() -> None:
    one, other = noise(0)[:64], noise(1)[:64]
    joined = cross_fade(one, other)
    assert joined.dtype == np.float32
    np.testing.assert_allclose(joined[0], one[0], atol=0.01)
    np.testing.assert_allclose(joined[-1], other[-1], atol=0.01)


def test_equal_pieces_pass_unchanged() -> None:
    np.testing.assert_allclose(cross_fade(noise(0), noise(0)), noise(0), atol=1e-7)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_power_is_kept_all_along(share: float) -> None:
    own, likeness = noise(0), share
    other = (likeness * own + np.sqrt(1 - likeness**2) * noise(1)).astype(np.float32)
    power = cross_fade(own, other).reshape(8, -1).std(axis=1)
    np.testing.assert_allclose(power, 0.1, rtol=0.03)


def test_silence_and_what_is_out_of_phase() -> None:
    silence = np.zeros(64, np.float32)
    assert cross_fade(silence, silence).tolist() == silence.tolist()
    one = noise(0)[:64]
    assert np.abs(cross_fade(one, -one)).max() <= np.abs(one).max()


def test_strangers_are_joined_by_sine_and_cosine() -> None:
    """Seed 002, equation 3."""
    one = np.array([1, 1, 0, 0], np.float32)
    angles = np.array([1, 3, 5, 7]) * np.pi / 16
    wanted = np.where(one > 0, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(cross_fade(one, 1 - one), wanted, atol=1e-6)
