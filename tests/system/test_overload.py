"""More streams than a server can begin in time: who is let in is spoken, who is not knows at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from hearing import SAME_FRAMES, Utterance, difference, hear, speak
from served import REPOSITORY, Served, served
from talkahead_client import Client, ServerBusy
from texts import SENTENCES
from waiting import eventually

from instruments.changed_repository import changed_repository

SETTINGS = {"talker.slots": "1", "talker.max_wait_ms": "4000", "talker.drafter": "none"}
CROWD, KNOWN = 80, 8
"""Streams at once, of which some twenty are spoken within four seconds; and how many are different."""
SECONDS = 4.0
ON_THE_WAY = 4
USUAL, URGENT = 2, 3
TOLD = re.compile(r"after \d+ ms, and 4000 ms are the most .* try again in about \d+ ms, .* urgency 1$")
Answer = TypeVar("Answer")
REFUSED = "talkahead_refused_requests_total"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One stream at once, and listeners who wait four seconds for it."""
    repository = changed_repository(REPOSITORY, tmp_path_factory.mktemp("narrow") / "models", SETTINGS)
    with served("--repository", repository) as running:
        yield running


def asked(seed: int, urgency: int = USUAL) -> dict[str, Any]:
    text = SENTENCES[seed % KNOWN]
    return {"text": f"{text} {text}", "seed": seed % KNOWN, "max_seconds": SECONDS, "urgency": urgency}


def heard_at(client: Client, request: dict[str, Any]) -> tuple[float, Utterance] | ServerBusy:
    """When its first chunk came, and all of it; or why it was not spoken."""
    try:
        with client.speak(**request) as speech:
            first = next(speech)
            at_s = time.perf_counter()
            return at_s, hear([first, *speech])
    except ServerBusy as busy:
        return busy


def test_who_would_wait_too_long_is_told_so_and_all_others_are_spoken(narrow: Served) -> None:
    with Client(narrow.grpc) as client, ThreadPoolExecutor(CROWD) as pool:
        # From these the server knows how long streams take.
        alone = [speak(client, **asked(seed)).audio for seed in range(KNOWN)]
        before = narrow.metric(REFUSED)
        # They come together: the talker has heard of none of them while the frontend is asked.
        answers = [pool.submit(heard_at, client, asked(seed)) for seed in range(CROWD)]
        urgent = heard_at(client, asked(1, URGENT))
        assert isinstance(urgent, tuple), urgent
        spoken = [(seed % KNOWN, *one) for seed, one in _of(tuple, answers)]
        refused = [str(one) for _, one in _of(ServerBusy, answers)]
        assert len(spoken) > 1 and len(refused) > 1
        assert [one for one in refused if not TOLD.search(one)] == []
        # By the frontend: no work was paid for, but of those for whom a stream's end changed the prediction
        # while they were on their way to the talker.
        all_but_few = range(len(refused) - ON_THE_WAY, len(refused) + 1)
        eventually(lambda: narrow.metric(REFUSED) - before, lambda count: count in all_but_few)
        assert any(at_s > urgent[0] for _, at_s, _ in spoken), "it overtook nobody"
        for seed, _, utterance in [*spoken, (1, *urgent)]:
            assert difference(utterance.audio, alone[seed]) < SAME_FRAMES
        eventually(lambda: client.load().details["open_streams"], lambda streams: streams == 0)
        assert difference(speak(client, **asked(0)).audio, alone[0]) < SAME_FRAMES


def _of(kind: type[Answer], answers: list[Future[Any]]) -> list[tuple[int, Answer]]:
    """Those of one kind, by their number."""
    return [(seed, one.result()) for seed, one in enumerate(answers) if isinstance(one.result(), kind)]
