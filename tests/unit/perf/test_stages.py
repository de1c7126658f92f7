from __future__ import annotations

import math

import pytest

from perf import stages
from perf.stages import Histogram

PAGE = """\
# HELP talkahead_prefill_seconds Seconds of prefill, in talker
# TYPE talkahead_prefill_seconds histogram
talkahead_prefill_seconds_count{model="talker"} 10
talkahead_prefill_seconds_sum{model="talker"} 0.05
talkahead_prefill_seconds_bucket{model="talker",le="0.002"} 2
talkahead_prefill_seconds_bucket{model="talker",le="0.01"} 10
talkahead_prefill_seconds_bucket{model="talker",le="+Inf"} 10
talkahead_prefill_seconds_sum{model="talker",instance="2"} 0.01
talkahead_prefill_seconds_bucket{model="talker",instance="2",le="0.002"} 0
talkahead_prefill_seconds_bucket{model="talker",instance="2",le="0.01"} 2
talkahead_prefill_seconds_bucket{model="talker",instance="2",le="+Inf"} 2
talkahead_first_chunk_seconds_sum 0.2
talkahead_first_chunk_seconds_bucket{le="+Inf"} 3
talkahead_open_streams 3
nv_inference_count{model="tts",version="1"} 7
"""


def test_reads_our_histograms_and_sums_instances() -> None:
    assert stages.read(PAGE) == {
        "prefill": Histogram((0.002, 0.01, math.inf), (2.0, 12.0, 12.0), 0.05 + 0.01)
    }


def test_quantiles_lie_on_a_line_within_a_bucket() -> None:
    histogram = Histogram((0.002, 0.01, math.inf), (2.0, 10.0, 12.0), 0.0)
    assert histogram.quantile(1 / 12) == pytest.approx(0.001)
    assert histogram.quantile(0.5) == pytest.approx(0.006)
    assert histogram.quantile(0.99) == pytest.approx(0.01)
    assert math.isnan(Histogram((1.0, math.inf), (0.0, 0.0), 0.0).quantile(0.5))


def test_only_what_passed_between_two_readings_counts() -> None:
    earlier = {"step": Histogram((0.002, math.inf), (4.0, 5.0), 1.0)}
    later = {
        "step": Histogram((0.002, math.inf), (8.0, 9.0), 1.004),
        "prefill": Histogram((0.002, math.inf), (1.0, 1.0), 0.001),
        "queue": Histogram((0.002, math.inf), (0.0, 0.0), 0.0),
    }
    step, prefill = stages.summary([stages.passed(earlier, later)])
    assert (step.name, step.count, prefill.name, prefill.count) == ("step", 4, "prefill", 1)
    assert step.mean_ms == pytest.approx(1.0) and step.p50_ms == pytest.approx(1.0)


def test_pieces_of_time_are_summed() -> None:
    pieces = [{"step": Histogram((0.002, math.inf), (4.0, 4.0), 0.004)}, {}]
    pieces.append({"step": Histogram((0.002, math.inf), (0.0, 4.0), 0.1)})
    [step] = stages.summary(pieces)
    assert (step.count, step.total_s) == (8, pytest.approx(0.104))
    assert step.p50_ms == pytest.approx(2.0)
