"""Hundreds of random requests, good and bad, some left half-way: each is answered, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from time import perf_counter
from typing import Any

from attempts import Attempt, attempt, attempts
from hearing import SAME_FRAMES, difference, speak
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from idle import wait_until_idle
from served import Served
from talkahead.drafting.drafters import drafter_names, verifiers_of
from talkahead_client import Client
from talkahead_client.protocol import ParameterValue
from texts import SENTENCES
from waiting import eventually

from perf.vanishing import busy

AT_ONCE = 5
ROUNDS = 110
AUDIO = "talkahead_audio_seconds_total"

REFERENCE: dict[str, Any] = {"text": SENTENCES[3], "seed": 77, "max_seconds": 2.0}

NEIGHBOURS: tuple[dict[str, ParameterValue], ...] = tuple(
    {"drafter": drafter, "verifier": verifier, **({} if drafter == "none" else {"pin_draft": True})}
    for drafter in drafter_names()
    for verifier in verifiers_of(drafter)
)
"""Streams of every pair, whose speech is the same whatever goes on beside them."""


def test_five_hundred_random_requests_leave_the_server_as_it_was(server: Served, client: Client) -> None:
    before = speak(client, **REFERENCE)
    alone = [speak(client, SENTENCES[4], seed=9, max_seconds=1.0, **options).audio for options in NEIGHBOURS]
    turns = cycle(range(len(NEIGHBOURS)))
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=ROUNDS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(attempts(), min_size=AT_ONCE, max_size=AT_ONCE))
    def throw(batch: list[Attempt]) -> None:
        ids = [f"fuzz {outcomes.total() + place}" for place in range(len(batch))]
        turn = next(turns)
        beside = pool.submit(speak, client, SENTENCES[4], seed=9, max_seconds=1.0, **NEIGHBOURS[turn])
        outcomes.update(pool.map(lambda one, id: attempt(server, client, one, id), batch, ids))
        assert difference(beside.result().audio, alone[turn]) < SAME_FRAMES, NEIGHBOURS[turn]

    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        throw()
    print(f"random requests: {dict(outcomes)}")
    assert outcomes.total() >= 500
    assert min(outcomes[outcome] for outcome in ("spoken", "refused", "left")) >= 50
    wait_until_idle(client)
    assert (speak(client, **REFERENCE).audio == before.audio).all()
    assert "restarting" not in server.log
    occupy_every_slot(server, client)


def occupy_every_slot(server: Served, client: Client) -> None:
    """As many streams as there are slots speak at once, and are let go.

    A machine that speaks more slowly than so many listeners hear lets some of them wait: it is not asked to.
    That no slot is lost the talker's own count tells, which is none when nobody is left.
    """
    slots = int(client.load().details["slots"])
    began_s, before_s = perf_counter(), server.metric(AUDIO)
    streams = [client.speak(" ".join(SENTENCES), seed=seed) for seed in range(slots)]
    try:
        eventually(
            lambda: busy(client), lambda counts: counts.get("active") == slots and "queued" not in counts
        )
    except AssertionError:
        pace = (server.metric(AUDIO) - before_s) / (perf_counter() - began_s)
        print(f"{pace:.1f} seconds of audio a second, of {slots} streams")
        if not 0 < pace < slots:
            raise
    finally:
        for stream in streams:
            stream.close()
    wait_until_idle(client)
