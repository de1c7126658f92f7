"""Text that is still being written: a plain WebSocket client, the gateway's own process, the real server."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from decoded_audio import decoded
from front_door import FrontDoor
from hearing import SAME_FRAMES, difference, hear, speak
from served import Served
from talkahead_client import Client
from texts import SENTENCES, prose
from waiting import eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

QUANTISED = 1 / 32_767
SLOT_FREE_LIMIT_S = 1.0
SEED = 5
NUM_MALFORMED = 80


@dataclass(frozen=True)
class Clause:
    """What came for one: its characters, and its speech with the silence before it."""

    text: str
    audio: npt.NDArray[np.float32]
    silence_s: float


@pytest.fixture(scope="module")
def door(server: Served) -> Iterator[FrontDoor]:
    with FrontDoor(server.grpc) as running:
        yield running


def address(door: FrontDoor, kind: str = "multi-stream-input", voice: str = "heart", more: str = "") -> str:
    return f"ws://{door.address}/v1/text-to-speech/{voice}/{kind}?output_format=pcm_24000&seed={SEED}{more}"


def say(line: ClientConnection, **message: object) -> None:
    line.send(json.dumps(message))


def heard(line: ClientConnection) -> Iterator[dict[str, Any]]:
    """Messages up to the final one."""
    while not (message := json.loads(line.recv(10.0))).get("isFinal"):
        yield message


def clauses(messages: Iterator[dict[str, Any]]) -> Iterator[Clause]:
    audio = b""
    for message in messages:
        audio += base64.b64decode(message["audio"])
        if aligned := message.get("alignment"):
            text = "".join(aligned["chars"])
            yield Clause(text, decoded("pcm", audio)[0], aligned["charStartTimesMs"][0] / 1e3)
            audio = b""


def is_idle(client: Client) -> bool:
    return not client.load().details["open_streams"]


def test_what_is_written_in_pieces_is_spoken_clause_by_clause(door: FrontDoor, client: Client) -> None:
    written = f"{SENTENCES[0]} It costs 3.14 dollars, says Dr. Smith. And that was"
    expected = [SENTENCES[0], "It costs 3.14 dollars, says Dr. Smith.", "And that was"]
    chance = random.Random(3)
    with connect(address(door)) as line:
        say(line, text=" ", context_id="a", voice_settings={"stability": 0.5})
        place = 0
        while place < len(written):
            length = chance.randint(1, 9)
            say(line, text=written[place : place + length], context_id="a")
            place += length
        say(line, context_id="a", flush=True)
        say(line, context_id="a", close_context=True)
        spoken = list(clauses(heard(line)))
    assert [clause.text.strip() for clause in spoken] == expected
    rate_hz = client.sample_rate_hz()
    for clause, text in zip(spoken, expected, strict=True):
        own = speak(client, text, voice="heart", seed=SEED).audio
        silence = len(clause.audio) - len(own)
        assert silence == pytest.approx(clause.silence_s * rate_hz, abs=0.001 * rate_hz)
        assert not clause.audio[:silence].any()
        assert difference(clause.audio[silence:], own) < SAME_FRAMES + QUANTISED
    assert spoken[0].silence_s == 0.0 < spoken[1].silence_s


def test_one_text_ends_with_its_connection(door: FrontDoor, client: Client) -> None:
    with connect(address(door, "stream-input", voice="onyx")) as line:
        say(line, text=" ")
        say(line, text="Hel")
        say(line, text="lo there", flush=True)
        say(line, text="")
        [clause] = clauses(heard(line))
        with pytest.raises(ConnectionClosed) as closed:
            line.recv(10.0)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
    own = speak(client, "Hello there", voice="tenor", seed=SEED).audio
    assert difference(clause.audio, own) < SAME_FRAMES + QUANTISED


def close_context(line: ClientConnection) -> None:
    say(line, context_id="a", close_context=True)


def close_twice(line: ClientConnection) -> None:
    say(line, context_id="a", flush=True)
    close_context(line)
    close_context(line)


def vanish(line: ClientConnection) -> None:
    line.socket.close()


@pytest.mark.parametrize("leave", [close_context, close_twice, ClientConnection.close, vanish])
def test_who_interrupts_frees_the_slot(
    door: FrontDoor, client: Client, leave: Callable[[ClientConnection], None]
) -> None:
    with connect(address(door)) as line:
        say(line, text=prose(4_000), context_id="a")
        next(heard(line))
        assert not is_idle(client)
        leave(line)
        left_s = time.monotonic()
        eventually(lambda: is_idle(client), bool, limit_s=SLOT_FREE_LIMIT_S)
        print(f"slot free {1e3 * (time.monotonic() - left_s):.0f} ms after {leave.__name__}")


def test_who_breaks_in_is_told_what_was_heard(door: FrontDoor) -> None:
    text = prose(4_000)
    with connect(address(door)) as line:
        say(line, text=text, context_id="a")
        while "alignment" not in json.loads(line.recv(10.0)):
            pass
        close_context(line)
        while not (message := json.loads(line.recv(10.0))).get("isFinal"):
            pass
    told = message["heard"]
    assert text.startswith(told["text"]) and told["text"].split()[-1] == told["lastWord"]
    assert 0 <= told["audioMs"] < 5_000


def test_words_have_their_times(door: FrontDoor, client: Client) -> None:
    with connect(address(door)) as line:
        say(line, text=SENTENCES[0], context_id="a", flush=True)
        say(line, context_id="a", close_context=True)
        (aligned,) = [message["alignment"] for message in heard(line) if "alignment" in message]
    words = [word for word in speak(client, SENTENCES[0], voice="heart", seed=SEED).words if word.kind == 1]
    assert len(words) == len(SENTENCES[0].split())
    for word in words:
        assert aligned["charStartTimesMs"][word.char_start] == pytest.approx(1e3 * word.start_s, abs=1)


# Messages that nobody should send.

BAD_MESSAGES = (
    b"\xff\x00",
    b"",
    "",
    "{",
    "null",
    "[" * 50_000,
    '{"text": "Hello \\ud83d"}',
    '{"text": 5}',
    '{"text": "Hello. ", "context_id": {}}',
    '{"text": "Hello. ", "voice_settings": {"speed": "fast"}}',
    '{"text": "Hello. ", "voice_settings": {"speed": 99}}',
    '{"text": "Hello. ", "flush": "yes"}',
    json.dumps({"text": "a" * 20_001}),
    json.dumps({"text": "a" * (1 << 21)}),
    '{"text": "\\u0000 control. "}',
)
BAD_ADDRESSES = (
    {"voice": "nobody"},
    {"voice": "%ff"},
    {"kind": "stream-output"},
    {"more": "&enable_ssml_parsing=true"},
    {"more": "&inactivity_timeout=-1"},
    {"more": "&seed=9999999999999999999999"},
)


class Told(Exception):
    """Of an error."""


def misbehave(door: FrontDoor, chance: random.Random) -> None:
    if chance.random() < 0.2:
        with pytest.raises(InvalidStatus), connect(address(door, **chance.choice(BAD_ADDRESSES))):
            pass
        return
    kind = chance.choice(["stream-input", "multi-stream-input"])
    with connect(address(door, kind), max_size=None) as line:
        if chance.random() < 0.5:
            say(line, text="A sentence that is quite in order. ")
        with suppress(ConnectionClosed):  # a long one may be refused before all of it has been sent
            line.send(chance.choice(BAD_MESSAGES))
        if chance.random() < 0.3:
            vanish(line)
            return
        with pytest.raises((ConnectionClosed, Told)):
            while True:
                if "error" in json.loads(line.recv(10.0)):
                    raise Told


def test_malformed_messages_are_refused_and_touch_nobody(
    door: FrontDoor, server: Served, client: Client
) -> None:
    text = " ".join(SENTENCES)
    alone = speak(client, text, seed=SEED).audio
    chance = random.Random(31)
    with client.speak(text, seed=SEED) as speaking:
        first = next(speaking)
        for _ in range(NUM_MALFORMED):
            misbehave(door, chance)
        assert difference(hear([first, *speaking]).audio, alone) < SAME_FRAMES
    eventually(lambda: is_idle(client), bool)
    with connect(address(door)) as line:
        say(line, text="Hello. ")
        assert next(heard(line))["audio"]
