from __future__ import annotations

import gc
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from weakref import WeakSet

import pytest
from fake_backend import Metrics
from talkahead.errors import BadRequest, Code, TalkaheadError
from talkahead.launcher.log_line import LogLine
from talkahead.telemetry import FrontendTelemetry, TalkerTelemetry, Telemetry, VocoderTelemetry
from talkahead.transport.messages import LoadReport
from talkahead.types import Ending, StepWay, StreamAccount


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


def test_tritons_families_are_never_let_go() -> None:
    """Neither while the process that takes this one's place has the same, nor when Python ends."""
    metrics = Metrics()
    families: WeakSet[object] = WeakSet()

    class Watched(metrics.MetricFamily):
        def __init__(self, name: str, description: str, kind: int) -> None:
            super().__init__(name, description, kind)
            families.add(self)

    metrics.MetricFamily = Watched
    telemetry = TalkerTelemetry(metrics)
    made = len(families)
    telemetry.close()
    del telemetry
    gc.collect()
    assert len(families) == made > 20


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


IDLE = LoadReport(active=0, queued=0, open_streams=0, slots=16, predicted_first_chunk_ms=40.0)


ACCOUNT = StreamAccount(
    stream=7,
    request_id="call 3",
    ending=Ending.END_OF_SPEECH,
    seconds=2.00049,
    queue_s=0.0,
    first_chunk_s=None,
    longest_gap_s=None,
    least_slack_s=None,
    frames=80,
)


def test_a_stream_that_ends_has_a_line_of_the_log_with_its_request() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.ended(ACCOUNT)
    telemetry.close()
    (line,) = metrics.Logger.infos
    entry = json.loads(LogLine(line).json(datetime(2026, 1, 2, tzinfo=UTC)))
    assert entry["request_id"] == "call 3" and entry["message"] == "stream 7 (request 'call 3') ended"
    assert (entry["ending"], entry["seconds"], entry["frames"]) == ("end_of_speech", 2.0, 80)
    assert "first_chunk_s" not in entry


def test_the_talker_counts_its_streams() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    for ending in (Ending.CANCELLED, Ending.CANCELLED, Ending.VANISHED):
        telemetry.ended(replace(ACCOUNT, ending=ending))
    telemetry.close()
    ended = metrics.by_labels("talkahead_streams_ended_total")
    assert ended.pop("cancelled")[-1] == 2 and ended.pop("vanished") == [1]
    assert ended == {ending: [] for ending in Ending if ending not in (Ending.CANCELLED, Ending.VANISHED)}


def test_a_gauge_is_sent_as_it_is_at_last_when_it_has_changed() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    for open_streams in (0, 4, 4, 0):
        telemetry.pool(replace(IDLE, open_streams=open_streams))
    telemetry.close()
    sent = metrics["talkahead_open_streams"]
    assert sent[-1] == 0 and all(one != other for one, other in pairwise(sent))
    assert metrics["talkahead_slots"] == [16]
    assert metrics["talkahead_predicted_first_chunk_seconds"] == [0.04]


def test_a_gauge_that_fails_is_lost_alone() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    inverse: list[float] = []
    metrics.MetricFamily("talkahead_open_streams", "", 1).Metric({}).set = lambda value: inverse.append(
        1 / value
    )  # type: ignore[method-assign]
    telemetry.pool(replace(IDLE, open_streams=0))
    telemetry.heard(0.1, 0.045)
    telemetry.close()
    assert not inverse and metrics["talkahead_audio_seconds_total"] == [0.1]
    assert metrics.Logger.warnings == ["a metric is lost: ZeroDivisionError: division by zero"]


def test_what_listeners_experience() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.heard(0.1, 0.045)
    telemetry.heard(0.25, None)
    telemetry.ended(replace(ACCOUNT, longest_gap_s=0.08, least_slack_s=0.0))
    telemetry.ended(ACCOUNT)  # of one chunk
    telemetry.close()
    assert metrics["talkahead_audio_seconds_total"][-1] == 0.35
    assert metrics["talkahead_first_chunk_seconds"] == [0.045]
    assert metrics["talkahead_longest_gap_seconds"] == [0.08]
    assert metrics["talkahead_least_slack_seconds"] == [0.0]


@pytest.mark.parametrize(
    ("streams", "nodes", "labels"), [(1, 1, "1,1"), (2, 3, "2,4"), (5, 8, "8,8"), (16, 9, "16,16")]
)
def test_steps_are_told_apart_by_streams_and_nodes(streams: int, nodes: int, labels: str) -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.stepped(3, 0.006, streams, nodes)
    telemetry.close()
    assert metrics.by_labels("talkahead_steps_total") == {labels: [3]}
    assert metrics.by_labels("talkahead_step_seconds_total") == {labels: [0.006]}


def test_steps_on_a_device_are_counted_by_how_they_are_asked_for() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    tell = telemetry.steps_by_way()
    for way in (StepWay.STEP, StepWay.EAGER, StepWay.STEP):
        tell(way)
    telemetry.close()
    told = metrics.by_labels("talkahead_forwards_total")
    assert {way: values[-1:] for way, values in told.items()} == {"step": [2], "forward": [], "eager": [1]}


def test_all_passes_of_the_codec_are_counted_and_those_of_first_windows_told_apart() -> None:
    metrics = Metrics()
    telemetry = VocoderTelemetry(metrics)
    telemetry.decoded(3, 0.25, is_urgent=False)
    telemetry.decoded(1, 0.5, is_urgent=True)
    telemetry.close()
    assert metrics["talkahead_codec_passes_total"][-1] == 2
    assert metrics["talkahead_windows_total"][-1] == 4
    assert metrics["talkahead_codec_seconds_total"][-1] == 0.75
    assert metrics["talkahead_vocoder_seconds"] == [0.5]


def test_refusals_are_counted_by_code() -> None:
    metrics = Metrics()
    telemetry = FrontendTelemetry(metrics)
    errors = (BadRequest("TEXT", "", "words"), ZeroDivisionError(), TalkaheadError("gone", Code.UNAVAILABLE))
    for error in errors:
        telemetry.refused(error)
    telemetry.close()
    refused = metrics.by_labels("talkahead_refused_requests_total")
    assert {code: values for code, values in refused.items() if values} == {
        "INVALID_ARGUMENT": [1],
        "INTERNAL": [1],
        "UNAVAILABLE": [1],
    }
    assert set(refused) == set(Code)


def test_streams_that_were_late_are_counted_and_in_the_log() -> None:
    metrics = Metrics()
    telemetry = TalkerTelemetry(metrics)
    telemetry.late("stream 7 (request 'mine')", 1.5)
    telemetry.late("stream 8 (request '')", 2.0)
    telemetry.close()
    assert metrics["talkahead_late_streams_total"][-1] == 2
    assert metrics["talkahead_late_seconds_total"][-1] == 3.5
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
    names = ("committed_tokens_total", "drafted_tokens_total", "accepted_tokens_total")
    assert [value(name, *pair) for name in names] == [26, 77, 9]
    steps = {tokens: value("target_steps_total", *pair, tokens) for tokens in ("1", "2", "3", "8")}
    assert steps == {"1": 5, "2": 3, "3": 2, "8": 1}, "nine tokens count as eight"
    assert value("target_steps_total", "none", "match", "1") == 30
