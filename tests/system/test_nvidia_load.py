"""NVIDIA's perf_analyzer on the real server: speech, and each model that it can ask alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from served import REPOSITORY, Served
from talkahead_client import Client

from perf.perf_analyzer import inputs
from perf.perf_analyzer.binary import Analyzer, Offer
from perf.perf_analyzer.inputs import Entry
from perf.texts import TEXTS

REQUESTS = 6


@pytest.mark.parametrize("offer", [Offer(streams=2, requests=REQUESTS), Offer(rate=4.0, requests=REQUESTS)])
def test_speech(server: Served, tmp_path: Path, offer: Offer) -> None:
    profile = Analyzer(tmp_path, server.grpc).run("tts", offer, inputs.of_texts(TEXTS[:4], "heart"))
    assert profile.requests >= REQUESTS and sum(profile.pairs.values()) == profile.requests
    pairs = zip(profile.first_samples_ms, profile.last_samples_ms, strict=True)
    assert all(0 < first < last for first, last in pairs)


@pytest.mark.parametrize("model", ["frontend", "encoder", "vocoder"])
def test_one_model_alone(server: Served, client: Client, tmp_path: Path, model: str) -> None:
    entries: dict[str, Sequence[Entry]] = {
        "frontend": inputs.of_texts(TEXTS[:4], None),
        "encoder": inputs.of_encoder(server.grpc, TEXTS[:4]),
        "vocoder": inputs.of_vocoder(REPOSITORY)[:REQUESTS],
    }
    profile = Analyzer(tmp_path, server.grpc).run(model, Offer(streams=2, requests=REQUESTS), entries[model])
    assert profile.requests >= REQUESTS and min(profile.first_samples_ms) > 0
    assert client.load().active == 0 and len(list(client.speak("Hello."))) > 0
