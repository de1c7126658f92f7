"""Levels of pitch, and the phase that adds up over them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from talkahead.audio.pitch import PERIOD, PhaseCounter, PitchScale, gap

SCALE = PitchScale(50.0, 200.0, 13)
COUNTER = PhaseCounter(np.arange(14), SCALE.advances(0.02))


def test_levels_are_the_nearest_by_ratio() -> None:
    assert SCALE.levels_hz()[1:][[0, 6, 12]] == pytest.approx([50, 100, 200])
    heard = np.array([0.0, 20.0, 50.0, 99.0, 104.0, 106.0, 200.0, 500.0])
    assert SCALE.levels(heard).tolist() == [0, 1, 1, 7, 7, 8, 13, 13]


def test_a_steady_voice_passes_its_periods() -> None:
    assert COUNTER.passed(np.full(11, 7)) == pytest.approx(100 * 0.2 * PERIOD, rel=1e-9)


def test_beside_an_unvoiced_frame_a_voice_keeps_its_pitch() -> None:
    one, other = torch.tensor([0.0, 200.0, 50.0]), torch.tensor([200.0, 0.0, 200.0])
    begin, end = gap(one, other)
    assert begin.tolist() == [200, 200, 50] and end.tolist() == [200, 200, 200]


@given(st.lists(st.integers(0, 13), min_size=1, max_size=50), st.data())
def test_phase_is_the_same_however_it_is_added_up(levels: list[int], data: st.DataObject) -> None:
    codes = np.array(levels)
    cut = data.draw(st.integers(0, len(codes) - 1))
    assert COUNTER.passed(codes[: cut + 1]) + COUNTER.passed(codes[cut:]) == COUNTER.passed(codes)


def test_without_tables_nothing_passes() -> None:
    assert PhaseCounter().passed(np.array([5, 6, 7])) == 0
