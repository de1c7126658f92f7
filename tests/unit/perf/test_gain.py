"""What parts of a measurement say together, and what one configuration gains on another."""

from __future__ import annotations

import math

import pytest
from talkahead_client import Figures, Stats

from perf import part
from perf.gain import Gain, Ratio
from perf.part import Part
from perf.utterance import Utterance


def utterance(
    stream: int, started_s: float, took_s: float, *, audio_s: float = 2.0, decode_s: float = 0.1
) -> Utterance:
    """Half of the audio arrives after half of the time."""
    stats = Stats(1, 1, 100, 50, 60, 50, 1, 1, 5, round(1e6 * decode_s), 1, 0)
    figures = Figures(500 * took_s, None, 1e3 * took_s, audio_s, took_s / audio_s, 2, 0, 0.0)
    half_ms = 500 * audio_s
    arrivals_ms = (500 * took_s, 1e3 * took_s)
    return Utterance(stream, 0, started_s, figures, stats, None, arrivals_ms, (half_ms, half_ms))


FAILED = Utterance(1, 0, 1.0, None, None, "UNAVAILABLE: because", (), ())


def test_a_part_counts_while_its_load_is_full() -> None:
    """Stream 0 leaves after 3 s; of stream 1, half of the second utterance has arrived by then."""
    spoken = [utterance(0, 0.0, 3.0, decode_s=0.4), utterance(1, 0.0, 2.0), utterance(1, 2.0, 2.0)]
    one = Part(4.0, spoken)
    assert one.full_s == 3.0
    assert one.audio_s == pytest.approx(2 + 2 + 1)
    assert one.decoding == pytest.approx((0.5, 4.0))
    assert part.audio_s_per_s([one, one]) == pytest.approx(5 / 3)
    assert part.decode_s_per_audio_s([one, one]) == pytest.approx(0.125)
    assert part.first_chunk_ms([one], 0.5) == pytest.approx(1000.0)


def test_requests_sent_at_the_same_moment_do_not_count_for_the_load_behind_them() -> None:
    spoken = [utterance(0, 0.0, 2.0), utterance(0, 2.0, 1.0), utterance(1, 0.0, 4.0), FAILED]
    at_once, spread_out = Part(4.0, spoken, begins_at_once=True), Part(4.0, spoken)
    assert [one.first_chunk_ms for one in at_once.burst] == [1000, 2000]
    assert [one.first_chunk_ms for one in at_once.under_load] == [500]
    assert part.first_chunk_ms([at_once], 0.5) == 500
    assert not spread_out.burst and len(spread_out.under_load) == 3
    nothing_else = Part(4.0, spoken[:1], begins_at_once=True)
    assert not nothing_else.burst and len(nothing_else.under_load) == 1


def test_of_nothing_but_errors_there_are_no_figures() -> None:
    failed = [Part(1.0, [FAILED])]
    assert math.isnan(part.decode_s_per_audio_s(failed)) and math.isnan(part.first_chunk_ms(failed, 0.5))
    assert Gain.of(failed, "other", failed).verdict == "not measured"


def parts(*decode_s: float) -> list[Part]:
    return [Part(2.0, [utterance(0, 0.0, 2.0, decode_s=one)]) for one in decode_s]


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ((0.08, 0.05, 0.07, 0.06), "faster"),
        ((0.13, 0.16, 0.14, 0.12), "slower"),
        ((0.08, 0.13, 0.09, 0.12), "nothing beyond noise"),
    ],
)
def test_a_gain_is_what_cannot_be_noise(own: tuple[float, ...], verdict: str) -> None:
    gain = Gain.of(parts(*own), "plain", parts(0.1, 0.1, 0.11, 0.1))
    assert gain.verdict == verdict and gain.is_faster is (verdict == "faster")
    assert gain.talker_speed.value == pytest.approx(0.41 / sum(own))
    assert gain.talker_speed.low < gain.talker_speed.value < gain.talker_speed.high
    assert gain.audio_s_per_s.is_noise and gain.audio_s_per_s.value == 1.0


def test_parts_are_drawn_in_pairs() -> None:
    """What slows both in one slice does not make the ratio uncertain."""
    drifting = parts(0.1, 0.2, 0.4, 0.8)
    ratio = Ratio.of(part.decode_s_per_audio_s, parts(0.2, 0.4, 0.8, 1.6), drifting)
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert str(ratio) == "2.00x (2.00 to 2.00)"
