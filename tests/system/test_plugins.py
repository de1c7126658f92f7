"""The plugins of voice agents as they come: Pipecat's and LiveKit's for three interfaces, and today's client
of Riva, in an environment of their own; the gateway's own process, and the real server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from front_door import FrontDoor
from hearing import speak
from requirements import PLUGINS
from served import Served
from talkahead_client import Client, Spoken
from texts import SENTENCES

pytestmark = pytest.mark.needs("plugins")

FOLDER = Path(__file__).parent / "plugins"
LIMIT_S = 60.0
TEXT = " ".join(SENTENCES[:2])
SEED = 5
"""Riva's client can name it; the plugins cannot."""
LENGTH_S = 1.0
"""By how much speech of another seed, its pauses and a codec's frames may differ from the server's."""
NEAR_S = 0.3
"""So may its words."""


@pytest.fixture(scope="module")
def door(server: Served) -> Iterator[FrontDoor]:
    with FrontDoor(server.grpc, options=("--riva-port", "0")) as running:
        yield running


def told_by(script: str, *arguments: str | None) -> dict[str, Any]:
    command = [PLUGINS, FOLDER / script, *arguments]
    ran = subprocess.run(command, capture_output=True, timeout=LIMIT_S, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr[-3_000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("framework", ["livekit", "pipecat"])
@pytest.mark.parametrize("interface", ["openai", "elevenlabs", "nvidia"])
def test_a_plugin_speaks_the_whole_text(
    door: FrontDoor, client: Client, framework: str, interface: str
) -> None:
    own = speak(client, TEXT, voice="heart")
    told = told_by(f"{framework}_speaks.py", interface, door.address, door.riva, TEXT)
    assert told["audio_s"] == pytest.approx(len(own.audio) / client.sample_rate_hz(), abs=LENGTH_S)
    if interface == "elevenlabs":
        assert [word.strip() for word, _ in told["words"]] == TEXT.split()
        check_times([start_s for _, start_s in told["words"]], own.words)


def check_times(told_s: list[float], words: Any) -> None:  # noqa: ANN401
    """From the first word on: what is in front of it, Pipecat does not tell."""
    own_s = [word.start_s for word in words if word.kind is Spoken.WORD]
    assert told_s == sorted(told_s)
    for told, own in zip(told_s, own_s, strict=True):
        assert told - told_s[0] == pytest.approx(own - own_s[0], abs=NEAR_S)


def test_rivas_client_is_told_when_words_are_said(door: FrontDoor, client: Client) -> None:
    told = told_by("riva_speaks.py", door.riva, *SENTENCES[:2])
    first, second = (speak(client, text, voice="heart", seed=SEED) for text in SENTENCES[:2])
    words = [word for word in first.words if word.kind is Spoken.WORD]
    assert [word for word, _, _ in told["whole"]] == [
        SENTENCES[0][word.char_start : word.char_end] for word in words
    ]
    assert [start for _, start, _ in told["whole"]] == [round(1e3 * word.start_s) for word in words]
    assert told["words"][: len(words)] == told["whole"]
    in_order = [moment for _, start, end in told["words"] for moment in (start, end)]
    assert in_order == sorted(in_order)
    # The second text's words count from the beginning of the call's audio.
    after = told["words"][len(words) :]
    begins_ms = 1e3 * (told["audio_s"] - len(second.audio) / client.sample_rate_hz())
    own = [word for word in second.words if word.kind is Spoken.WORD]
    assert len(after) == len(own)
    for (_, start, _), word in zip(after, own, strict=True):
        assert start == pytest.approx(begins_ms + 1e3 * word.start_s, abs=2)
