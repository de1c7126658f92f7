"""Codecs that hear all of a window get what was spoken before a segment as its first windows' context."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talkahead.config import RequestOptions
from talkahead.engine.emitter import Channel
from talkahead.engine.requests import SegmentRequest
from talkahead.types import SegmentHeader
from talker_fakes import CONFIG, SILENCE, Outlet, Rig, script

JOINING = replace(CONFIG, speech=replace(CONFIG.speech, joins_segments=True))
CONTEXT, LOOKAHEAD = CONFIG.speech.context_frames, CONFIG.speech.lookahead_frames
VOICE = 3


def check(outlets: list[Outlet], before: list[int], wholes: list[list[int]]) -> None:
    """Each window has, to its left, what was heard there, as far as the codec's context reaches."""
    for outlet, whole in zip(outlets, wholes, strict=True):
        heard, start = before + whole, len(before)
        for window in outlet.windows:
            header = window.header
            assert header.context == min(start, CONTEXT)
            assert header.position == start - len(before)
            beyond = min(start + header.new + LOOKAHEAD, len(heard))
            assert window.frames[:, 0].tolist() == heard[start - header.context : beyond]
            start += header.new
        assert start == len(heard)
        before = heard


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.integers(0, 9), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_segment_begins_behind_the_ones_before_and_their_pauses(
    lengths: list[int], pause: int, chunk_frames: int
) -> None:
    rig, last = Rig(config=JOINING), len(lengths) - 1
    outlets = [
        rig.submit(
            VOICE,
            frames,
            segment=index,
            last=index == last,
            pause=pause,
            first_chunk_frames=2,
            chunk_frames=chunk_frames,
        )
        for index, frames in enumerate(lengths)
    ]
    rig.finish()
    pauses = [[SILENCE] * pause] * last + [[]]
    wholes = [script(VOICE, frames) + silent for frames, silent in zip(lengths, pauses, strict=True)]
    check(outlets, [], wholes)
    rig.assert_empty()


@pytest.mark.parametrize("length", [1, 4, 5, 12])
def test_the_first_one_begins_behind_the_reference(length: int) -> None:
    rig, outlet = Rig(config=JOINING), Outlet()
    prompt = np.zeros((20, 4), np.float32)
    prompt[0, :2] = VOICE, 30
    history = np.arange(100, 100 + length)
    options = RequestOptions(temperature=0.0, first_chunk_frames=2, chunk_frames=7)
    request = SegmentRequest(SegmentHeader(1, 0, 1, 0, 9, 7), prompt, options, "", outlet, history=history)
    rig.outlets.append(outlet)
    rig.loop.submit(request, Channel(outlet, lambda job: job(), rig._lose, rig.logged.append))
    rig.finish()
    check([outlet], history.tolist(), [script(VOICE, 30)])


def test_other_codecs_begin_anew() -> None:
    rig = Rig()
    outlets = [rig.submit(VOICE, 20, segment=index, last=index == 1) for index in range(2)]
    rig.finish()
    assert [outlet.windows[0].header.context for outlet in outlets] == [0, 0]
