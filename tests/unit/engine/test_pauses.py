"""Silence between segments: heard like speech, paid for by no step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.errors import Code
from talkahead.types import StopReason
from talker_fakes import CONFIG, FRAME_LIMIT, SILENCE, Rig, script


def test_a_pause_follows_every_segment_but_the_last() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 20, segment=index, last=index == 2, pause=12) for index in range(3)]
    rig.finish()
    paused = script(3, 20) + 12 * [SILENCE]
    assert [outlet.tokens for outlet in outlets] == [paused, paused, script(3, 20)]
    assert [outlet.windows[-1].stats.frames for outlet in outlets] == [32, 64, 84]
    assert outlets[2].reason is StopReason.END_OF_SPEECH
    assert [outlet.end for outlet in outlets] == ["closed"] * 3
    rig.assert_empty()


@given(st.integers(1, 60), st.integers(0, 40), st.integers(1, 9), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_windows_over_a_pause_are_those_of_the_whole(
    frames: int, pause: int, first_chunk_frames: int, chunk_frames: int
) -> None:
    rig = Rig()
    sizes = {"first_chunk_frames": first_chunk_frames, "chunk_frames": chunk_frames}
    outlet = rig.submit(3, frames, last=False, pause=pause, **sizes)
    rig.submit(3, 5, segment=1, **sizes)
    rig.finish()
    whole, start = script(3, frames) + pause * [SILENCE], 0
    for window in outlet.windows:
        header = window.header
        assert header.new > 0 and header.context == min(start, CONFIG.speech.context_frames)
        beyond = min(start + header.new + CONFIG.speech.lookahead_frames, len(whole))
        assert window.frames[:, 0].tolist() == whole[start - header.context : beyond]
        start += header.new
    assert start == len(whole)
    rig.assert_empty()


def test_a_pause_takes_no_step_and_holds_up_no_decoding() -> None:
    steps = {}
    for pause in (0, 30):
        rig = Rig(address=0)
        rig.submit(3, 20, last=False, pause=pause)
        rig.submit(3, 20, segment=1)
        rig.run()
        steps[pause] = len(rig.backbone.steps)
    assert steps[0] == steps[30] == 40


def test_the_next_segment_is_decoded_while_the_pause_is_on_its_way() -> None:
    rig = Rig()
    first = rig.submit(3, 5, last=False, pause=5, chunk_frames=50)
    second = rig.submit(3, 60, segment=1, chunk_frames=50)
    rig.run()
    assert first.end == "closed" and first.tokens[-1] == SILENCE
    assert rig.loop.num_windows_in_flight == len(first.windows) + len(second.windows)
    assert second.windows
    rig.finish()
    assert second.tokens == script(3, 60)
    rig.assert_empty()


def test_a_full_slot_has_room_for_the_pause() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 10 * FRAME_LIMIT, last=False, pause=30), rig.submit(3, 12, segment=1)]
    rig.finish()
    spoken = script(3, rig.backbone.max_positions - 3)
    assert outlets[0].tokens == spoken + 30 * [SILENCE]
    assert outlets[1].tokens == script(3, 12)
    assert outlets[1].reason is StopReason.LENGTH
    rig.assert_empty()


def test_cancel_in_a_pause() -> None:
    rig = Rig(config=replace(CONFIG, max_windows_per_stream=1))
    sizes = {"first_chunk_frames": 8, "chunk_frames": 8}
    outlets = [rig.submit(3, 10, last=False, pause=40, **sizes), rig.submit(3, 10, segment=1, **sizes)]
    while SILENCE not in outlets[0].tokens:
        rig.run()
        rig.answer()
    assert rig.loop.cancel(3, None) == 1
    sent = len(outlets[0].windows)
    rig.finish()
    assert len(outlets[0].windows) == sent < 6
    ends = {str(outlet.end) for outlet in outlets}
    assert ends == {"closed", "the stream was cancelled"}
    assert rig.log[-1][1].error.code is Code.CANCELLED
    rig.assert_empty()


def test_max_seconds_ends_in_a_pause() -> None:
    rig = Rig()
    outlets = [
        rig.submit(3, 20, segment=index, last=index == 1, pause=30, max_seconds=0.7) for index in range(2)
    ]
    rig.finish()
    assert outlets[0].tokens == script(3, 20) + 15 * [SILENCE]
    assert outlets[0].reason is StopReason.MAX_SECONDS and outlets[0].windows[-1].header.last
    assert outlets[0].windows[-1].stats.char_end == 9
    assert not outlets[1].windows
    assert [outlet.end for outlet in outlets] == ["closed"] * 2
    rig.assert_empty()


@pytest.mark.parametrize("pause", [-1, CONFIG.max_pause_frames + 1])
def test_a_pause_out_of_bounds_is_refused(pause: int) -> None:
    rig = Rig()
    outlet = rig.submit(3, 10, last=True, pause=pause)
    assert "pause_frames" in str(outlet.error) and "0 to 100" in str(outlet.error)
    rig.assert_empty()
