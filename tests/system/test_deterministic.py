"""Rung (c) of exactness: with --deterministic, company never changes a bit of audio."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hearing import speak
from served import served
from talkahead_client import Client
from texts import SENTENCES

pytestmark = pytest.mark.patient


def test_deterministic_speech_has_the_same_bits_in_any_company() -> None:
    asked = [(text, seed) for seed, text in enumerate(SENTENCES)]
    with served("--deterministic") as server, Client(server.grpc) as client:
        alone = [speak(client, text, seed=seed).audio for text, seed in asked]
        with ThreadPoolExecutor(len(asked)) as pool:
            together = list(pool.map(lambda one: speak(client, one[0], seed=one[1]).audio, 2 * asked))
    for one, other in zip(2 * alone, together, strict=True):
        assert np.array_equal(one, other)
