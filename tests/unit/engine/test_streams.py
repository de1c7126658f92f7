"""Streams from arrival to end: frames, order, segments, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from talkahead.config import RequestOptions
from talkahead.drafting.drafters import drafter_names
from talkahead.engine.emitter import Channel
from talkahead.engine.requests import SegmentRequest
from talkahead.errors import Code
from talkahead.speculation.verifiers import VERIFIERS
from talkahead.types import SegmentHeader, StopReason
from talker_fakes import CONFIG, FRAME_LIMIT, Rig, script


def test_a_stream_speaks_its_frames_once_and_in_order() -> None:
    rig = Rig()
    outlet = rig.submit(3, 40)
    rig.finish()
    assert outlet.tokens == script(3, 40)
    assert outlet.end == "closed"
    headers = [window.header for window in outlet.windows]
    assert [header.chunk for header in headers] == list(range(len(headers)))
    assert [header.last for header in headers] == [0] * (len(headers) - 1) + [1]
    assert outlet.reason is StopReason.END_OF_SPEECH
    for window in outlet.windows:
        header = window.header
        assert len(window.frames) == header.context + header.new + header.lookahead
        assert header.new > 0
    rig.assert_empty()


def test_stats_are_running_totals() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 40, last=False), rig.submit(3, 50, segment=1)]
    rig.finish()
    stats = [window.stats for outlet in outlets for window in outlet.windows]
    assert [one.frames for one in stats] == sorted(one.frames for one in stats)
    assert stats[-1].frames == 90
    assert stats[-1].target_steps == 90  # a segment's first frame needs no step, its end needs one
    assert (stats[-1].drafted, stats[-1].accepted) == (0, 0)
    assert [outlet.windows[-1].stats.char_end for outlet in outlets] == [9, 19]
    assert outlets[1].windows[0].stats.char_end == 9
    assert stats[-1].seed == 7 and stats[-1].stop_reason == StopReason.END_OF_SPEECH


def test_steps_are_timed_for_every_stream_in_them() -> None:
    """Streams that share a step each count it whole; the time between steps counts for nobody."""
    rig = Rig()
    rig.backbone.on_step = lambda: setattr(rig, "now", rig.now + 0.0015)
    outlets = [rig.submit(1, 10, last=False), rig.submit(2, 40), rig.submit(1, 20, segment=1)]
    rig.run(5)
    rig.now += 0.5
    rig.finish()
    for outlet, steps in ((outlets[2], 30), (outlets[1], 40)):
        stats = outlet.windows[-1].stats
        assert (stats.target_steps, stats.decode_us) == (steps, 1500 * steps)


def test_stats_name_the_pair() -> None:
    rig = Rig()
    outlet = rig.submit(1, 3)
    rig.finish()
    stats = outlet.windows[-1].stats
    assert (drafter_names()[stats.drafter], list(VERIFIERS)[stats.verifier]) == ("none", "match")


def test_sixteen_streams_each_get_their_own() -> None:
    rig = Rig(num_slots=16)
    outlets = [rig.submit(stream, 10 + 3 * stream) for stream in range(16)]
    rig.finish()
    for stream, outlet in enumerate(outlets):
        assert outlet.tokens == script(stream, 10 + 3 * stream)
    assert rig.backbone.prefills == [16]
    rig.assert_empty()


def test_more_streams_than_slots_are_spoken_one_after_another() -> None:
    rig = Rig(num_slots=2)
    outlets = [rig.submit(stream, 20) for stream in range(9)]
    assert rig.loop.turn() == 0.0
    assert (rig.loop.load.active, rig.loop.load.queued) == (2, 7) or rig.loop.load.queued == 9
    rig.finish()
    assert [outlet.tokens for outlet in outlets] == [script(stream, 20) for stream in range(9)]
    rig.assert_empty()


def test_an_utterance_has_at_least_one_frame() -> None:
    """The end of speech is forbidden at once, so that the last chunk is never empty."""
    rig = Rig()
    outlet = rig.submit(3, 0)
    rig.finish()
    assert outlet.tokens == script(3, 1)
    assert outlet.reason is StopReason.END_OF_SPEECH
    rig.assert_empty()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_segments_are_spoken_in_order_however_they_arrive(order: tuple[int, ...]) -> None:
    rig = Rig()
    arrived = {segment: rig.submit(3, 10 + segment, segment=segment, last=segment == 2) for segment in order}
    rig.finish()
    outlets = [arrived[segment] for segment in range(3)]
    assert [outlet.tokens for outlet in outlets] == [script(3, 10), script(3, 11), script(3, 12)]
    headers = [window.header for outlet in outlets for window in outlet.windows]
    assert [header.chunk for header in headers] == list(range(len(headers)))
    assert [header.sequence for header in headers] == list(range(len(headers)))
    assert [header.last for header in headers] == [0] * (len(headers) - 1) + [1]
    assert [outlet.end for outlet in outlets] == ["closed"] * 3
    rig.assert_empty()


def test_each_segment_is_an_utterance_of_its_own_to_the_codec() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 30, last=False), rig.submit(3, 30, segment=1)]
    rig.finish()
    assert [outlet.windows[0].header.context for outlet in outlets] == [0, 0]
    assert [outlet.windows[-1].header.lookahead for outlet in outlets] == [0, 0]
    assert outlets[1].windows[0].header.new > outlets[0].windows[0].header.new  # the ramp runs on


def test_the_next_segment_is_prefilled_before_it_is_needed() -> None:
    rig = Rig()
    first, second = rig.submit(3, 40, last=False), rig.submit(3, 40, segment=1)
    while len(rig.backbone.prefills) < 2:
        assert rig.run(1) == 0.0
    assert not second.windows and len(first.tokens) < 30
    steps = len(rig.backbone.steps)
    rig.finish()
    assert rig.backbone.prefills == [1, 1]
    assert len(rig.backbone.steps) - steps <= 80
    assert second.tokens == script(3, 40)


def test_a_newcomer_takes_the_slot_of_a_prefetched_segment() -> None:
    rig = Rig(num_slots=2)
    first, second = rig.submit(1, 30, last=False), rig.submit(1, 30, segment=1)
    while rig.loop.num_free_slots:
        assert rig.run(1) == 0.0
    newcomer = rig.submit(2, 10)
    rig.run(3)
    assert rig.loop.load.queued == 0
    rig.finish()
    assert [one.tokens for one in (first, second, newcomer)] == [script(1, 30), script(1, 30), script(2, 10)]
    rig.assert_empty()


def test_a_segment_longer_than_its_slot_is_cut_and_says_so() -> None:
    rig = Rig()
    outlet = rig.submit(3, 10 * FRAME_LIMIT)
    rig.finish()
    assert outlet.tokens == script(3, rig.backbone.max_positions - 3)
    assert outlet.reason is StopReason.LENGTH
    rig.assert_empty()


def test_a_cut_segment_is_followed_by_the_next() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 10 * FRAME_LIMIT, last=False), rig.submit(3, 12, segment=1)]
    rig.finish()
    assert outlets[1].tokens == script(3, 12)
    assert outlets[1].reason is StopReason.LENGTH
    rig.assert_empty()


def test_a_stream_is_open_until_the_last_of_its_segments_has_come() -> None:
    """Its client has the end after that: a server that stopped earlier would answer it with an error."""
    rig = Rig()
    rig.submit(3, 40, last=False, max_seconds=0.5)
    rig.finish()
    assert (rig.loop.load.open_streams, rig.loop.load.active) == (1, 0)
    rig.submit(3, 40, segment=1, last=True, max_seconds=0.5)
    rig.run()
    rig.assert_empty()


def test_a_stream_that_is_given_up_hides_no_other_that_is_waited_for() -> None:
    rig = Rig()
    lost = rig.submit(4, 10, last=False)
    rig.finish()
    rig.now += CONFIG.segment_timeout_s - 1.0
    rig.submit(3, 40, last=False, max_seconds=0.5)
    rig.finish()
    assert lost.end == "closed" and rig.loop.load.open_streams == 2
    rig.advance(1.0)
    assert (rig.loop.load.open_streams, rig.loop.load.active) == (1, 0)
    rig.submit(3, 40, segment=1, last=True, max_seconds=0.5)
    rig.run()
    rig.assert_empty()


def test_what_never_arrives_is_not_waited_for_without_end() -> None:
    rig = Rig()
    rig.submit(3, 40, last=False, max_seconds=0.5)
    rig.finish()
    wait_s = rig.run()
    assert wait_s <= CONFIG.segment_timeout_s
    rig.advance(wait_s)
    rig.assert_empty()


def test_max_seconds_ends_the_stream_and_closes_what_is_left() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 40, segment=index, last=index == 3, max_seconds=1.3) for index in range(3)]
    rig.finish()
    late = rig.submit(3, 40, segment=3, max_seconds=1.3)
    assert [len(outlet.tokens) for outlet in outlets] == [40, 25, 0]
    assert outlets[1].reason is StopReason.MAX_SECONDS
    assert outlets[1].windows[-1].header.last == 1
    assert [outlet.end for outlet in (*outlets, late)] == ["closed"] * 4
    closing = [outlet for what, outlet in rig.log if what == "end"]
    assert closing.index(outlets[2]) < closing.index(outlets[1])
    rig.assert_empty()


def test_a_deadline_ends_the_stream_with_an_error() -> None:
    rig = Rig()
    outlet = rig.submit(3, 60, deadline_ms=500)
    assert rig.run() == pytest.approx(0.5)
    rig.answer()
    rig.advance(0.6)
    rig.answer()
    rig.advance(CONFIG.settle_s)
    assert outlet.error.code is Code.CANCELLED and "500 ms" in str(outlet.error)
    rig.assert_empty()


def test_a_deadline_that_passes_with_nothing_in_flight_wakes_the_loop_for_the_error() -> None:
    rig = Rig(num_slots=1)
    rig.submit(1, 60)
    rig.run()
    waiting = rig.submit(2, 60, deadline_ms=500)
    rig.run()
    rig.now += 0.6
    rig.run()
    assert waiting.error.code is Code.CANCELLED
    playing = rig.submit(3, 60, deadline_ms=500)
    rig.loop.cancel(1, None)
    rig.answer()
    rig.run()
    rig.answer()
    rig.now += 0.6
    rig.answer()
    assert playing.end is None
    assert rig.run() == pytest.approx(CONFIG.settle_s)
    rig.now += CONFIG.settle_s
    rig.run()
    assert playing.error.code is Code.CANCELLED
    rig.assert_empty()


def test_a_health_check_that_gets_no_slot_in_time_hears_that_the_server_is_well() -> None:
    rig = Rig(num_slots=1)
    rig.submit(1, 60)
    rig.run()
    checks = [rig.submit(2 + check, 60, deadline_ms=500, health_check=bool(check)) for check in (0, 1)]
    rig.run()
    rig.now += 0.6
    rig.run()
    assert ["IS_LAST" in str(one.error) for one in checks] == [False, True]


def test_a_full_pool_refuses_at_once_and_says_how_long_to_wait() -> None:
    rig = Rig(num_slots=1, config=replace(CONFIG, max_pending=2))
    spoken = [rig.submit(1, 20)]
    rig.run(1)
    spoken += [rig.submit(2, 20), rig.submit(3, 20)]
    refused = rig.submit(4, 20)
    assert refused.error.code is Code.RESOURCE_EXHAUSTED
    assert " ms" in str(refused.error)
    rig.finish()
    assert [len(outlet.tokens) for outlet in spoken] == [20, 20, 20]
    rig.assert_empty()


def test_a_playing_stream_whose_next_segment_waits_takes_no_newcomer_s_place() -> None:
    rig = Rig(num_slots=1, config=replace(CONFIG, max_pending=1))
    rig.submit(1, 5, last=False)
    rig.run()
    rig.answer()
    rig.run()
    rig.submit(2, 60)
    rig.run(1)
    spoken = [rig.submit(1, 5, segment=1), rig.submit(3, 20)]
    refused = rig.submit(4, 20)
    assert str(refused.error).startswith("1 streams wait for a slot already")
    rig.finish()
    assert [len(outlet.tokens) for outlet in spoken] == [5, 20]
    rig.assert_empty()


def test_a_refusal_waits_for_the_other_segments_so_that_it_comes_last() -> None:
    rig = Rig(num_slots=1, config=replace(CONFIG, max_pending=0))
    rig.submit(1, 20)
    rig.run(1)
    first = rig.submit(2, 20, last=False)
    assert first.end is None
    second = rig.submit(2, 20, segment=1)
    ends = {id(first): first, id(second): second}
    assert sorted(str(type(one.end).__name__) for one in ends.values()) == ["TalkaheadError", "str"]
    failed = first if first.end != "closed" else second
    assert rig.log[-1] == ("end", failed)
    rig.finish()
    rig.assert_empty()


@pytest.mark.parametrize(
    "prompt",
    [
        np.zeros((0, 4)),
        np.zeros((3, 5)),
        np.zeros(4),
        np.full((3, 4), np.nan),
        np.zeros((FRAME_LIMIT + 8, 4)),
    ],
    ids=["empty", "width", "rank", "nan", "long"],
)
def test_a_prompt_that_cannot_be_spoken_is_refused(prompt: np.ndarray) -> None:
    rig = Rig()
    neighbour = rig.submit(1, 10)
    outlet = type(neighbour)(rig.log)
    rig.loop.submit(
        SegmentRequest(
            SegmentHeader(2, 0, 1, 0, 9, 7), prompt.astype(np.float32), RequestOptions(), "", outlet
        ),
        Channel(outlet, lambda job: job(), lambda window, failure: None, rig.logged.append),
    )
    assert "PROMPT" in str(outlet.error)
    rig.finish()
    assert neighbour.tokens == script(1, 10)
    rig.assert_empty()


def test_a_segment_sent_twice_is_refused_and_the_first_one_is_spoken() -> None:
    rig = Rig()
    first, again = rig.submit(3, 10), rig.submit(3, 10)
    assert again.error.code is Code.INVALID_ARGUMENT
    rig.finish()
    assert first.tokens == script(3, 10)
    rig.assert_empty()


def test_a_missing_segment_ends_the_stream() -> None:
    rig = Rig()
    first, third = rig.submit(3, 10, last=False), rig.submit(3, 10, segment=2)
    rig.finish()
    assert first.end == "closed" and third.end is None
    rig.advance(CONFIG.segment_timeout_s)
    assert "segment 1" in str(third.error)
    rig.assert_empty()


@pytest.mark.parametrize(("frames_per_s", "first", "full"), [(50, 6, 25), (12.5, 2, 7), (80, 10, 40)])
def test_chunks_last_as_long_whatever_a_frame_lasts(frames_per_s: float, first: int, full: int) -> None:
    """120 ms, doubled up to 500 ms, unless a request says otherwise."""
    speech = replace(CONFIG.speech, hop=round(CONFIG.speech.sample_rate_hz / frames_per_s))
    rig = Rig(config=replace(CONFIG, speech=speech))
    usual, chosen = rig.submit(1, 95), rig.submit(2, 95, first_chunk_frames=3, chunk_frames=5)
    rig.finish()
    sizes = [[window.header.new for window in outlet.windows] for outlet in (usual, chosen)]
    assert sizes[0][:2] == [first, min(2 * first, full)] and max(sizes[0]) == full
    assert sizes[1][:3] == [3, 5, 5]
