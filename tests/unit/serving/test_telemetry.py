from __future__ import annotations

from fake_backend import Metrics
from talkahead.telemetry import OPEN_STREAMS, TalkerTelemetry, Telemetry
from talkahead.types import StopReason


def test_stages_become_histograms() -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics, "encoder", ("encoder",))
    telemetry.stage("encoder", 0.5)
    with telemetry.timed("encoder"):
        pass
    telemetry.stage("unknown", 1.0)
    telemetry.close()
    first, second = metrics["talkahead_encoder_seconds"]
    assert first == 0.5 and 0 <= second < 0.5


def test_a_metric_that_fails_is_lost_alone() -> None:
    metrics = Metrics()
    telemetry = Telemetry(metrics, "encoder", ("encoder",))
    inverse: list[float] = []
    metrics.metrics["talkahead_encoder_seconds", "encoder"].observe = lambda value: inverse.append(1 / value)  # type: ignore[method-assign]
    for seconds in (0.5, 0.0, 0.25):
        telemetry.stage("encoder", seconds)
    telemetry.close()
    assert inverse == [2, 4]
    assert metrics.Logger.warnings == ["a metric is lost: ZeroDivisionError: float division by zero"]


def test_the_talker_counts_its_streams() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.pool(active=2, queued=1, open_streams=4)
    telemetry.ended(StopReason.CANCELLED)
    telemetry.ended(StopReason.CANCELLED)
    telemetry.stage("step", 0.002)
    telemetry.close()
    assert metrics["talkahead_active_streams"] == [2] and metrics["talkahead_queued_streams"] == [1]
    assert metrics[OPEN_STREAMS] == [4]
    assert metrics.metrics["talkahead_streams_ended", "cancelled"].values == [1, 2]
    assert metrics["talkahead_step_seconds"] == [0.002]


def test_streams_that_were_late_are_counted_and_in_the_log() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.late("stream 7 (request 'mine')", 1.5)
    telemetry.late("stream 8 (request '')", 2.0)
    telemetry.close()
    assert metrics["talkahead_late_streams"] == [1, 2]
    assert metrics["talkahead_late_seconds"] == [1.5, 3.5]
    assert metrics.Logger.warnings[0] == (
        "stream 7 (request 'mine') was late: its listener waited 1.5 s in all for it to go on"
    )


def test_speculation_is_counted_by_drafter_and_verifier() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.spoken("heads", "tolerance", drafted=70, accepted=9, committed=[0, 4, 3, 2, 0, 0, 0, 0, 0, 1])
    telemetry.spoken("heads", "tolerance", drafted=7, accepted=0, committed=[0, 1])
    telemetry.spoken("none", "match", drafted=0, accepted=0, committed=[0, 30])
    telemetry.close()

    def value(name: str, *labels: str) -> float:
        return metrics.metrics[f"talkahead_{name}", ",".join(labels)].values[-1]

    pair = ("heads", "tolerance")
    assert [value(name, *pair) for name in ("target_steps", "drafted_tokens", "accepted_tokens")] == [
        11,
        77,
        9,
    ]
    assert value("target_steps", "none", "match") == 30
    buckets = [value("committed_per_step_bucket", *pair, edge) for edge in ("1", "2", "3", "8", "+Inf")]
    assert buckets == [5, 8, 10, 10, 11]
    assert value("committed_per_step_sum", *pair) == 26 and value("committed_per_step_count", *pair) == 11
