"""A vocoder that is slow is waited for; one that hangs is found; who left is noticed beside both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talkahead.engine.engine_config import EngineConfig
from talkahead.errors import Code
from talkahead.transport.messages import PassBegun, WindowDone
from talkahead.types import WindowHeader
from talker_fakes import CONFIG, SPEECH, Outlet, Rig, script

TIMES_SLOWER, BATCH = 10, 16
LOOKS_S = 0.05
"""Between two looks at the clock while a pass is under way: what falls due meanwhile is seen."""


class SlowVocoder:
    """Takes windows in the order in which they left, a batch at a time, and decodes them one by one.

    Args:
        passes_over: streams whose windows never reach it.
        newest_first: of a batch, among the windows that do not need each other: they overtake the older ones.
    """

    def __init__(self, rig: Rig, passes_over: tuple[Outlet, ...] = (), *, newest_first: bool = False) -> None:
        self._rig = rig
        self._passes_over = passes_over
        self._newest_first = newest_first
        self._taken: set[tuple[int, int]] = set()

    def work(self) -> bool:
        """One batch; whether there was any."""
        batch = self._batch()
        oldest = min((header.sequence for header in batch), default=0)
        if self._newest_first:
            batch.sort(key=lambda header: (header.chunk, -header.sequence))
        for header in batch:
            seconds = TIMES_SLOWER * header.new / SPEECH.frames_per_s
            self._rig.loop.expect(PassBegun(oldest, seconds))
            self._pass(seconds)
            self._rig.loop.acknowledge(
                WindowDone(header.stream, header.generation, header.chunk, seconds=seconds)
            )
            self._rig.run()
        return bool(batch)

    def _batch(self) -> list[WindowHeader]:
        headers = [
            window.header
            for outlet in self._rig.outlets
            if outlet not in self._passes_over
            for window in outlet.windows
        ]
        waiting = [one for one in headers if (one.stream, one.chunk) not in self._taken]
        batch = sorted(waiting, key=lambda header: header.sequence)[:BATCH]
        self._taken |= {(header.stream, header.chunk) for header in batch}
        return batch

    def _pass(self, seconds: float) -> None:
        for _ in range(round(seconds / LOOKS_S)):
            self._rig.advance(LOOKS_S)


@pytest.mark.parametrize("newest_first", [False, True], ids=["in order", "overtaking"])
def test_a_codec_ten_times_slower_than_real_time_fails_none_of_ten_streams(newest_first: bool) -> None:
    rig = Rig(num_slots=10)
    outlets = [rig.submit(stream, 60) for stream in range(10)]
    rig.run()
    vocoder = SlowVocoder(rig, newest_first=newest_first)
    while vocoder.work():
        pass
    assert [outlet.end for outlet in outlets] == ["closed"] * 10
    assert [outlet.tokens for outlet in outlets] == [script(stream, 60) for stream in range(10)]
    assert rig.now > 100 + 10 * TIMES_SLOWER * 60 / SPEECH.frames_per_s - 1
    rig.assert_empty()


def test_a_vocoder_that_is_stuck_in_a_window_is_found() -> None:
    rig = Rig()
    outlet = rig.submit(3, 90)
    rig.run()
    rig.loop.expect(PassBegun(0, seconds=1.0))
    rig.advance(CONFIG.patience - 0.01)
    assert outlet.end is None
    rig.advance(0.02)
    assert outlet.error.code is Code.UNAVAILABLE
    assert "chunk 0 for 5 s: is the vocoder held up?" in str(outlet.error)
    rig.assert_empty()


def test_a_quick_vocoder_that_hangs_is_found_as_soon_as_one_that_says_nothing() -> None:
    rig = Rig()
    outlet = rig.submit(3, 90)
    rig.run()
    rig.loop.expect(PassBegun(0, seconds=0.02))
    rig.advance(CONFIG.idle_timeout_s - 0.01)
    assert outlet.end is None
    rig.advance(0.02)
    assert "chunk 0 for 2 s" in str(outlet.error)


def test_a_window_that_leaves_while_the_vocoder_is_at_work_waits_for_its_turn() -> None:
    rig = Rig()
    rig.submit(1, 90)
    rig.run()
    rig.loop.expect(PassBegun(0, seconds=4.0))
    rig.advance(0.5)
    late = rig.submit(2, 90)
    rig.run()
    rig.advance(4.0)
    assert late.end is None
    rig.finish()
    assert late.tokens == script(2, 90)


QUICK_TO_NOTICE = replace(CONFIG, vanished_after=4, vanished_grace_s=0.2)


@pytest.mark.parametrize("config", [CONFIG, QUICK_TO_NOTICE], ids=["idle", "overtaken"])
def test_a_client_that_left_is_noticed_when_the_vocoder_goes_on_without_it(config: EngineConfig) -> None:
    rig = Rig(num_slots=10, config=config)
    gone = rig.submit(9, 90)
    rig.run()
    rig.advance(config.vanished_grace_s + 0.1)
    others = [rig.submit(stream, 60) for stream in range(4)]
    rig.run()
    vocoder = SlowVocoder(rig, passes_over=(gone,))
    vocoder.work()
    assert gone.end is not None and all(outlet.end is None for outlet in others)
    while vocoder.work():
        pass
    assert [outlet.tokens for outlet in others] == [script(stream, 60) for stream in range(4)]
    rig.assert_empty()


def test_windows_that_overtake_one_within_a_batch_do_not_make_its_client_vanish() -> None:
    rig = Rig(num_slots=10, config=QUICK_TO_NOTICE)
    outlets = [rig.submit(stream, 60) for stream in range(10)]
    rig.run()
    vocoder = SlowVocoder(rig, newest_first=True)
    while vocoder.work():
        pass
    assert [outlet.tokens for outlet in outlets] == [script(stream, 60) for stream in range(10)]


def test_a_window_that_its_successor_overtook_on_the_way_is_waited_for() -> None:
    """Triton's threads hand windows over nearly in their order: a batch may begin before an older one."""
    rig = Rig(num_slots=10)
    first, second = rig.submit(1, 5), rig.submit(2, 5)
    rig.run()
    [oldest], [newer] = first.windows, second.windows
    rig.loop.expect(PassBegun(newer.header.sequence, seconds=4.0))
    rig.advance(4.0)
    rig.answer(second)
    assert first.end is None and oldest.header.sequence < newer.header.sequence
    rig.answer(first)
    assert first.end == "closed"
