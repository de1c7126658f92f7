"""Every window is told the phase of the voice at its first frame, however the speech is cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from talkahead.audio.pitch import PERIOD, PhaseCounter, PitchScale
from talker_fakes import CONFIG, EOS, Outlet, Rig

SCALE = PitchScale(70.0, 200.0, 10)
COUNTER = PhaseCounter(np.arange(EOS) % 11, SCALE.advances(0.02))


def assert_phases_add_up(outlet: Outlet, codes: list[int]) -> None:
    """`codes` are those of one segment, which the outlet's windows cover."""
    spoken = 0
    for window in outlet.windows:
        first = spoken - window.header.context
        assert window.frames[:, 0].tolist() == codes[first : first + len(window.frames)]
        assert window.header.phase == COUNTER.passed(np.array(codes[: first + 1])) % PERIOD
        spoken += window.header.new
    assert spoken == len(codes)


@pytest.mark.parametrize(("first", "chunk"), [(1, 1), (2, 7), (4, 16), (50, 50)])
def test_windows_carry_the_phase_of_their_first_frame(first: int, chunk: int) -> None:
    rig = Rig(config=replace(CONFIG, phases=COUNTER))
    outlet = rig.submit(3, 60, first_chunk_frames=first, chunk_frames=chunk)
    rig.finish()
    assert len(outlet.tokens) == 60
    assert_phases_add_up(outlet, outlet.tokens)


def test_each_segment_begins_at_phase_0_and_its_pause_belongs_to_it() -> None:
    rig = Rig(config=replace(CONFIG, phases=COUNTER))
    segments = [rig.submit(5, 30, segment=0, last=False, pause=9), rig.submit(5, 20, segment=1)]
    rig.finish()
    for outlet, frames in zip(segments, (39, 20), strict=True):
        assert len(outlet.tokens) == frames
        assert_phases_add_up(outlet, outlet.tokens)
