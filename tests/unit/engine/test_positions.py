"""Every window says where in its segment its new frames begin, however the speech is cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from talkahead.families.code_tokens import CodeTokens
from talker_fakes import CONFIG, SPEECH, Outlet, Rig

STEPS = 3


def assert_windows_tile(outlet: Outlet, codes: list[int]) -> None:
    """`codes` are those of one segment, which the outlet's windows cover."""
    spoken = 0
    for window in outlet.windows:
        first = spoken - window.header.context
        assert window.frames[:, 0].tolist() == codes[first : first + len(window.frames)]
        assert window.header.position == spoken
        spoken += window.header.new
    assert spoken == len(codes)


@pytest.mark.parametrize(("first", "chunk"), [(1, 1), (2, 7), (4, 16), (50, 50)])
def test_windows_say_where_they_begin(first: int, chunk: int) -> None:
    rig = Rig()
    outlet = rig.submit(3, 60, first_chunk_frames=first, chunk_frames=chunk)
    rig.finish()
    assert len(outlet.tokens) == 60
    assert_windows_tile(outlet, outlet.tokens)


def test_each_segment_begins_at_0_and_its_pause_belongs_to_it() -> None:
    rig = Rig()
    segments = [rig.submit(5, 30, segment=0, last=False, pause=9), rig.submit(5, 20, segment=1)]
    rig.finish()
    for outlet, frames in zip(segments, (39, 20), strict=True):
        assert len(outlet.tokens) == frames
        assert_windows_tile(outlet, outlet.tokens)


class _Grouped(CodeTokens):
    """Three tokens a frame, which become its codes."""

    def frames(self, tokens: np.ndarray) -> np.ndarray:
        return tokens[: len(tokens) // STEPS * STEPS].reshape(-1, STEPS)

    def tokens(self, frames: np.ndarray) -> np.ndarray:
        return frames.flatten()


@pytest.mark.parametrize("steps", [60, 61, 62])
@pytest.mark.parametrize("pause", [0, 4])
def test_frames_of_several_tokens_are_cut_whole_and_an_unfinished_one_is_left_out(
    steps: int, pause: int
) -> None:
    silence = tuple(range(505, 505 + STEPS))
    speech = replace(SPEECH, codebooks=(512,) * STEPS, silence=silence, steps_per_frame=STEPS)
    rig = Rig(config=replace(CONFIG, speech=speech, tokens=_Grouped(SPEECH.codebooks)))
    outlet = rig.submit(2, steps, last=False, pause=pause, first_chunk_frames=2, chunk_frames=5)
    rig.submit(2, 9, segment=1)
    rig.finish()
    new = [
        window.frames[window.header.context : window.header.context + window.header.new]
        for window in outlet.windows
    ]
    spoken = [16 + index % 8 for index in range(60)]
    expected = np.array(spoken + list(silence) * pause).reshape(-1, STEPS)
    np.testing.assert_array_equal(np.concatenate(new), expected)
    assert [window.header.position for window in outlet.windows] == [
        sum(map(len, new[:index])) for index in range(len(new))
    ]
