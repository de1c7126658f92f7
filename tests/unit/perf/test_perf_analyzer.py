from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from perf.perf_analyzer.profile import Profile
from perf.report import tables

MS = 1_000_000


def test_reads_first_and_last_audio_from_the_profile() -> None:
    audio, empty = {"IS_LAST": False}, {"IS_LAST": False, "STATS": 14059}
    last = {"IS_LAST": True, "STATS": [1, 2, 30, 20, 40, 10, 1, 1, 9, 5000, 3, 1]}
    requests = [
        {
            "timestamp": 1000 * MS,
            "response_timestamps": [1040 * MS, 1100 * MS, 1101 * MS],
            "response_outputs": [audio, last, empty],
        },
        {"timestamp": 1100 * MS, "response_timestamps": [1160 * MS], "response_outputs": [last]},
    ]
    profile = Profile.of("tts", {"experiment": {"mode": "concurrency", "value": 2}, "requests": requests})
    assert profile.first_samples_ms == (40.0, 60.0) and profile.last_samples_ms == (100.0, 60.0)
    assert (profile.value, profile.requests, profile.first_ms.p50) == (2, 2, 50.0)
    assert profile.pairs == {"draft_lm+ratio": 2}
    assert profile.requests_per_s == pytest.approx(2 / 0.16) and profile.asked_per_s == pytest.approx(1 / 0.1)


def test_a_stream_without_an_end_is_refused() -> None:
    request = {"timestamp": 0, "response_timestamps": [1], "response_outputs": [{"IS_LAST": False}]}
    with pytest.raises(SystemExit, match="without its last chunk"):
        Profile.of("tts", {"experiment": {"value": 1}, "requests": [request]})


def test_a_model_without_audio_ends_with_its_last_response() -> None:
    request = {
        "timestamp": 0,
        "response_timestamps": [3 * MS, 8 * MS],
        "response_outputs": [{"SYMBOLS": 1}, {}],
    }
    experiment = {"experiment": {"mode": "request_rate", "value": 2.5}, "requests": [request]}
    profile = Profile.of("frontend", experiment)
    assert (profile.first_samples_ms, profile.last_samples_ms, profile.pairs) == ((3.0,), (8.0,), {})
    assert profile.row()["load"] == "2.5/s"


def test_the_page_has_every_model_and_what_our_own_generator_saw() -> None:
    requests = [
        {"timestamp": at, "response_timestamps": [at + 4 * MS, at + 8 * MS], "response_outputs": [{}, {}]}
        for at in (0, 4 * MS, 8 * MS)
    ]
    experiment = {"experiment": {"mode": "concurrency", "value": 4}, "requests": requests}
    alone = Profile.of("frontend", experiment)
    heard = replace(alone, model="tts", own_first_ms=5.0)
    told = tables.by_perf_analyzer({"results": [asdict(heard), asdict(alone)]}).splitlines()
    assert told[2] == "| tts | 4 at once | 250.0 | 187.5 | 4 / 4 ms | 8 / 8 ms | 5 ms | 1.25 |"
    assert told[3] == "| frontend | 4 at once | 250.0 | 187.5 | 4 / 4 ms | 8 / 8 ms | - | - |"
