"""Frames that a segment is drawn with before its speech begins are context of its first window alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.errors import ArtifactMismatch
from talkahead.types import StopReason
from talker_fakes import CONFIG, SILENCE, SPEECH, Rig, script

UNHEARD = 2
QUIET = replace(CONFIG, speech=replace(SPEECH, unheard_frames=UNHEARD))


@given(st.integers(1, 60), st.integers(0, 20), st.integers(1, 9), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_windows_tile_what_is_heard(
    frames: int, pause: int, first_chunk_frames: int, chunk_frames: int
) -> None:
    rig = Rig(config=QUIET)
    sizes = {"first_chunk_frames": first_chunk_frames, "chunk_frames": chunk_frames}
    outlets = [
        rig.submit(3, frames, segment=index, last=index == 1, pause=pause, **sizes) for index in range(2)
    ]
    rig.finish()
    for outlet, silent in zip(outlets, (pause, 0), strict=True):
        silent = max(silent, UNHEARD + 1 - frames)
        whole, start = script(3, frames) + silent * [SILENCE], UNHEARD
        for window in outlet.windows:
            header = window.header
            assert header.new > 0 and header.position == start - UNHEARD
            assert header.context == min(start, SPEECH.context_frames)
            beyond = min(start + header.new + SPEECH.lookahead_frames, len(whole))
            assert window.frames[:, 0].tolist() == whole[start - header.context : beyond]
            start += header.new
        assert start == len(whole)
    assert outlets[1].reason is StopReason.END_OF_SPEECH
    rig.assert_empty()


def test_max_seconds_are_those_that_are_heard() -> None:
    rig = Rig(config=QUIET)
    outlets = [rig.submit(3, 20, segment=index, last=index == 1, max_seconds=0.6) for index in range(2)]
    rig.finish()
    assert [outlet.tokens for outlet in outlets] == [script(3, 20)[UNHEARD:], script(3, 14)[UNHEARD:]]
    assert outlets[1].windows[-1].stats.frames == 30
    assert outlets[1].reason is StopReason.MAX_SECONDS
    rig.assert_empty()


@pytest.mark.parametrize("frames", [-1, SPEECH.context_frames + 1])
def test_more_than_a_window_shows_is_refused(frames: int) -> None:
    with pytest.raises(ArtifactMismatch, match=rf"unheard_frames is {frames}; from 0 to context_frames"):
        replace(SPEECH, unheard_frames=frames)
