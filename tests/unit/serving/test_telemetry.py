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
