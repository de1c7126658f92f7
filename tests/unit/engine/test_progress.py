"""The frontend is told how far a stream is, as long as it has segments to send."""

from __future__ import annotations

from dataclasses import replace

from talkahead.errors import Code
from talkahead.transport.messages import StreamProgress
from talker_fakes import CONFIG, Rig, script


def test_a_stream_that_has_arrived_whole_tells_nothing() -> None:
    rig = Rig()
    rig.submit(3, 20)
    rig.finish()
    assert rig.progress == []


def test_each_segment_that_is_spoken_is_told_until_the_last_has_come() -> None:
    rig = Rig()
    outlets = [rig.submit(3, 20, segment=index, last=False) for index in range(2)]
    assert rig.progress == [StreamProgress(3, 0)]
    rig.finish()
    assert rig.progress == [StreamProgress(3, spoken) for spoken in range(3)]
    outlets.append(rig.submit(3, 20, segment=2))
    rig.finish()
    assert len(rig.progress) == 3
    assert [outlet.tokens for outlet in outlets] == [script(3, 20)] * 3
    rig.assert_empty()


def test_a_cancelled_stream_is_over_at_once_and_ends_with_the_segment_that_closes_it() -> None:
    rig = Rig()
    outlet = rig.submit(3, 90, last=False)
    rig.run()
    rig.loop.cancel(3, None)
    rig.loop.cancel(3, None)
    assert rig.progress == [StreamProgress(3, 0), StreamProgress(3, 0, is_over=True)]
    rig.answer()
    rig.advance(CONFIG.settle_s)
    assert outlet.end is None  # more may be on its way, and the error comes last
    rig.submit(3, 1, segment=1)
    rig.advance(CONFIG.settle_s)
    assert rig.log[-1][1].error.code is Code.CANCELLED
    rig.assert_empty()


def test_a_refused_stream_is_over() -> None:
    rig = Rig(num_slots=1, config=replace(CONFIG, max_pending=0))
    rig.submit(1, 20)
    rig.run(1)
    refused = rig.submit(2, 20, last=False)
    assert rig.progress[-1] == StreamProgress(2, 0, is_over=True)
    closing = rig.submit(2, 1, segment=1)
    assert {refused.end == "closed", closing.end == "closed"} == {True, False}
    rig.finish()
    rig.assert_empty()


def test_a_stream_whose_client_has_left_is_over_and_its_rest_is_closed() -> None:
    rig = Rig()
    rig.submit(3, 60, last=False)
    rig.run()
    rig.advance(CONFIG.idle_timeout_s)
    assert rig.progress[-1] == StreamProgress(3, 0, is_over=True)
    assert rig.submit(3, 1, segment=1).end == "closed"
    rig.assert_empty()


def test_a_stream_that_reaches_max_seconds_is_over() -> None:
    rig = Rig()
    rig.submit(3, 60, last=False, max_seconds=0.5)
    rig.finish()
    assert rig.progress[-1] == StreamProgress(3, 0, is_over=True)
    assert rig.submit(3, 1, segment=1).end == "closed"
    rig.assert_empty()
