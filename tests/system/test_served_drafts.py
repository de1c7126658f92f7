"""Drafters and verifiers by request, on the real server, with untrained drafts beside the shipped talker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hearing import difference, hear, speak
from pipeline import frames_of
from served import REPOSITORY, Served, served
from talkahead_client import Client, InvalidRequest
from talkahead_client.protocol import ParameterValue
from texts import SENTENCES
from tiny_drafts import put_drafts
from waiting import eventually

SECONDS = 1.5
PLAIN: dict[str, ParameterValue] = {"drafter": "none"}
MATCH: tuple[dict[str, ParameterValue], ...] = (
    {"drafter": "heads"},
    {"drafter": "heads", "nodes": 4, "pin_draft": True},
    {"drafter": "mtp"},
    {"drafter": "draft_lm", "draft_length": 2},
    {"drafter": "draft_lm", "pin_draft": True},
)
SIMILARITIES = (0.9, 0.8)
"""With less, each of 15,361 tokens would be like thousands of others, and gigabytes would say so."""
LENIENT: tuple[dict[str, ParameterValue], ...] = (
    {"verifier": "tolerance", "tolerance": 2, "pin_draft": True},
    {"verifier": "topk", "top_k_verify": 3, "pin_draft": True},
    {"verifier": "ratio", "pin_draft": True},
    {"verifier": "groups", "similarity": SIMILARITIES[-1], "pin_draft": True},
    {"verifier": "biased", "bias": 0.1, "pin_draft": True},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    copy: Path = tmp_path_factory.mktemp("drafts") / "model_repository"
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns("drafts", "groups"))
    put_drafts(copy / "talker" / "1", SIMILARITIES)
    with served("--repository", copy, "--exit-timeout", "1") as running:
        yield running
    shutil.rmtree(copy)


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Client]:
    with Client(server.grpc) as connected:
        yield connected


def codes(server: Served, **parameters: ParameterValue) -> list[list[int]]:
    return [
        one.tolist() for one in frames_of(server, SENTENCES[0], seed=3, max_seconds=SECONDS, **parameters)
    ]


def test_match_gives_the_tokens_of_plain_decoding(server: Served) -> None:
    plain = codes(server, **PLAIN)
    for options in ({}, *MATCH):
        assert codes(server, **options) == plain, options


def test_every_verifier_speaks_in_company_as_alone(client: Client) -> None:
    asked = [PLAIN, {}, *MATCH, *LENIENT]
    alone = [speak(client, SENTENCES[1], seed=5, max_seconds=SECONDS, **one) for one in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        streams = [client.speak(SENTENCES[1], seed=5, max_seconds=SECONDS, **one) for one in asked]
        together = list(pool.map(hear, streams))
    for options, one, other in zip(asked, alone, together, strict=True):
        assert difference(one.audio, other.audio) < 1e-3, options
    assert all(
        one.stats.drafted > 0 for one, options in zip(alone, asked, strict=True) if "pin_draft" in options
    )
    assert alone[0].stats.drafted == 0 and alone[0].stats.target_steps >= alone[0].stats.frames - 2


def test_drafts_are_counted_by_drafter_and_verifier(server: Served, client: Client) -> None:
    """By a pair that no other test asks for: what was said before is told a moment later."""

    def counted() -> tuple[float, ...]:
        pair = {"drafter": "mtp", "verifier": "tolerance"}
        return tuple(server.metric(f"talkahead_{name}", **pair) for name in COUNTERS)

    assert not any(counted())
    options = {"drafter": "mtp", "verifier": "tolerance", "tolerance": 2, "pin_draft": True}
    stats = speak(client, SENTENCES[2], seed=1, max_seconds=SECONDS, **options).stats
    assert stats.drafted > 0
    eventually(counted, lambda now: now == (stats.target_steps, stats.drafted, stats.accepted))


COUNTERS = ("target_steps_total", "drafted_tokens_total", "accepted_tokens_total")


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"drafter": "heads", "verifier": "ratio"}, "with drafter heads: match, tolerance, topk"),
        ({"drafter": "mtp", "draft_length": 9}, "a whole number from 1 to 2 with drafter mtp"),
        ({"verifier": "groups", "similarity": 0.5}, "allowed: 0.9, 0.8"),
        ({"drafter": "draft_lm", "nodes": 8}, "it belongs to heads; leave it out"),
    ],
)
def test_refusals_name_what_is_allowed(
    client: Client, options: dict[str, ParameterValue], allowed: str
) -> None:
    with pytest.raises(InvalidRequest, match=allowed):
        speak(client, SENTENCES[0], **options)
