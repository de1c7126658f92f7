"""Text that is still being written, over WebSockets on loopback, before a server that plays a script."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import grpc
import numpy as np
import pytest
from answering import Answering, Open
from decoded_audio import decoded
from fake_triton import (
    RATE_HZ,
    SAMPLES,
    FakeStream,
    FakeTriton,
    chunk,
    final,
    speaks,
    speaks_on,
    stalls,
)
from talkahead_gateway import conversation, playback, turn, writing_door
from talkahead_gateway.clause_cutter import SENTENCE_PAUSE_S
from talkahead_gateway.manner import Manner, read_manner
from talkahead_gateway.speech_door import SpeechLimits
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

ONE, MANY = "stream-input", "multi-stream-input"
NUM_CHUNKS = 3
SHIPPED = {"output_format": "pcm_24000"}


class Line:
    """A WebSocket, and what comes over it."""

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket

    async def say(self, **message: object) -> None:
        await self.websocket.send(json.dumps(message))

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(5.0):
            heard: dict[str, Any] = json.loads(await self.websocket.recv())
            return heard

    async def hear_turn(self) -> list[dict[str, Any]]:
        """Up to and without the final message."""
        messages: list[dict[str, Any]] = []
        while not (message := await self.hear()).get("isFinal"):
            messages.append(message)
        return messages

    async def end(self) -> ConnectionClosed:
        """How the other side closes, after whatever it still says."""
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(5.0):
                while True:
                    await self.websocket.recv()
        return closed.value


@asynccontextmanager
async def line(
    door: Answering, kind: str, voice: str = "slt", headers: dict[str, str] | None = None, **query: str
) -> AsyncIterator[Line]:
    address = f"ws://127.0.0.1:{door.port}/v1/text-to-speech/{voice}/{kind}?{urlencode({**SHIPPED, **query})}"
    async with connect(address, additional_headers=headers) as websocket:
        yield Line(websocket)


def audio_of(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(message["audio"]) for message in messages)


def texts(triton: FakeTriton) -> list[str]:
    return [stream.text for stream in triton.streams]


async def cancelled(stream: FakeStream) -> bool:
    return await asyncio.to_thread(stream.cancelled.wait, 5.0)


async def test_clauses_are_spoken_in_order_and_once(open_door: Open, triton: FakeTriton) -> None:
    triton.script = speaks(NUM_CHUNKS)
    text = "Hello there. It costs 3.14 dollars. Dr. Smith says so! And that is all"
    async with open_door() as door, line(door, ONE) as one:
        await one.say(text=" ", voice_settings={"stability": 0.5}, xi_api_key="none")
        for start in range(0, len(text), 5):
            await one.say(text=text[start : start + 5])
        await one.say(text="")
        messages = await one.hear_turn()
        assert (await one.end()).rcvd.code == 1000
    assert texts(triton) == [
        "Hello there.",
        "It costs 3.14 dollars.",
        "Dr. Smith says so!",
        "And that is all",
    ]
    assert all("contextId" not in message for message in messages)
    speech, pause = NUM_CHUNKS * SAMPLES, round(SENTENCE_PAUSE_S * RATE_HZ)
    audio, _ = decoded("pcm", audio_of(messages))
    assert len(audio) == pytest.approx(4 * speech + 3 * pause, abs=0.1 * RATE_HZ)
    aligned = [message["alignment"] for message in messages if "alignment" in message]
    assert "".join("".join(one["chars"]) for one in aligned).split() == text.split()
    ends_ms = [one["charStartTimesMs"][-1] + one["charDurationsMs"][-1] for one in aligned]
    assert sum(ends_ms) == pytest.approx(1e3 * len(audio) / RATE_HZ, abs=len(aligned))
    starts_ms = [
        start
        for message in messages
        if "normalizedAlignment" in message
        for start in message["normalizedAlignment"]["charStartTimesMs"]
    ]
    assert starts_ms == sorted(starts_ms)
    assert starts_ms[-1] == pytest.approx(1e3 * len(audio) / RATE_HZ, abs=len(aligned))


async def test_a_clause_is_heard_while_the_next_is_written(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="One. T", context_id="a")
        assert len(audio_of([await many.hear()])) == 2 * SAMPLES
        assert texts(triton) == ["One."]
        await many.say(text="wo. ", context_id="a")
        await many.say(context_id="a", flush=True)
        await many.say(context_id="a", close_context=True)
        messages = await many.hear_turn()
        assert texts(triton) == ["One.", "Two."]
        assert {message["contextId"] for message in messages} == {"a"}


@pytest.mark.parametrize("voice", ["rms", "alloy"])
async def test_what_holds_for_all_goes_along(open_door: Open, triton: FakeTriton, voice: str) -> None:
    async with open_door() as door, line(door, ONE, voice, seed="7") as one:
        await one.say(text=" ", voice_settings={"speed": 1.2})
        await one.say(text="Hello. ")
        await one.say(text="")
        await one.hear_turn()
    request = triton.streams[0].request
    assert request.raw_input_contents[1][4:] == (b"rms" if voice == "rms" else b"slt")
    assert request.parameters["seed"].int64_param == 7
    assert request.parameters["speed"].double_param == 1.2


async def test_a_message_of_auto_mode_is_spoken_though_nothing_ends_it(
    open_door: Open, triton: FakeTriton
) -> None:
    async with open_door() as door, line(door, MANY, auto_mode="true") as many:
        await many.say(text=" ", context_id="a")
        await many.say(text="Hello there", context_id="a")
        assert (await many.hear())["contextId"] == "a"
    assert texts(triton) == ["Hello there"]


async def test_nothing_is_lost_or_said_twice_at_a_flush(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hel", context_id="a", flush=True)
        await many.say(text="lo. And", context_id="a", flush=True)
        await many.say(context_id="a", flush=True)
        await many.say(text=" so on", context_id="a")
        await many.say(context_id="a", flush=True)
        await many.say(context_id="a", close_context=True)
        await many.hear_turn()
    assert texts(triton) == ["Hel", "lo.", "And", "so on"]


async def test_contexts_are_spoken_side_by_side(open_door: Open, triton: FakeTriton) -> None:
    def script(stream: FakeStream) -> Iterator[Any]:
        return (stalls(1) if stream.text == "Long." else speaks(1))(stream)

    triton.script = script
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Long. ", context_id="a")
        assert (await many.hear())["contextId"] == "a"
        await many.say(text="Short. ", context_id="b", flush=True)
        await many.say(context_id="b", flush=True)
        await many.say(context_id="b", close_context=True)
        assert {message["contextId"] for message in await many.hear_turn()} == {"b"}
        assert not triton.streams[0].cancelled.is_set()


# Closing: the end of a turn, or an interruption.


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_closing_while_it_is_heard_ends_it_at_once(
    open_door: Open, triton: FakeTriton, is_flushed: bool
) -> None:
    triton.script = stalls(1)
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hello. ", context_id="a", flush=is_flushed)
        await many.hear()
        await many.say(context_id="a", close_context=True)
        assert await many.hear_turn() == []
        assert await cancelled(triton.streams[0])
        # The name is free again, for a turn that has nothing to do with the other.
        triton.script = speaks(1)
        await many.say(text="Again. ", context_id="a")
        assert audio_of([await many.hear()])


async def test_closing_what_is_being_waited_for_ends_it_too(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(0)
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hello. And this is ", context_id="a")
        assert await asyncio.to_thread(triton.arrived.wait, 5.0)
        await many.say(context_id="a", close_context=True)
        assert await many.hear_turn() == []
        assert await cancelled(triton.streams[0])
    assert texts(triton) == ["Hello."]


async def test_closing_once_more_ends_what_was_to_be_spoken_to_its_end(
    open_door: Open, triton: FakeTriton
) -> None:
    triton.script = stalls(1)
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hello. ", context_id="a")
        await many.hear()
        await many.say(context_id="a", flush=True)
        await many.say(context_id="a", close_context=True)
        # A sign of life comes between them.
        await many.say(text="")
        await many.say(text="", context_id="a")
        assert not triton.streams[0].cancelled.is_set()
        await many.say(context_id="a", close_context=True)
        assert await many.hear_turn() == []
        assert await cancelled(triton.streams[0])


@pytest.mark.parametrize("is_flushed_with_text", [False, True])
async def test_what_was_flushed_is_spoken_after_closing(
    open_door: Open, triton: FakeTriton, is_flushed_with_text: bool
) -> None:
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hello. And so", context_id="a", flush=is_flushed_with_text)
        if not is_flushed_with_text:
            await many.say(context_id="a", flush=True)
        await many.say(context_id="a", close_context=True)
        await many.hear_turn()
    assert texts(triton) == ["Hello.", "And so"]


async def test_a_closed_socket_ends_all(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    async with open_door() as door:
        async with line(door, MANY) as many:
            for context in ("a", "b"):
                await many.say(text="Hello. ", context_id=context)
                await many.hear()
        assert [await cancelled(stream) for stream in triton.streams] == [True, True]


async def test_a_client_that_vanishes_ends_all(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    async with open_door() as door, line(door, ONE) as one:
        await one.say(text="Hello. ")
        await one.hear()
        one.websocket.transport.abort()
        assert await cancelled(triton.streams[0])


async def test_close_socket_hears_out_what_was_complete(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hello. ", context_id="a")
        await many.say(context_id="a", flush=True)
        await many.say(text="Half a sen", context_id="b")
        await many.say(close_socket=True)
        await many.say(text="Too late. ", context_id="c")
        assert (await many.end()).rcvd.code == 1000
    assert texts(triton) == ["Hello."]


def says_words(stream: FakeStream) -> Iterator[object]:
    """A second of "One two three.", and no end of it."""
    words = [(0, 3, 0, 1), (4, 7, 2 * RATE_HZ // 5, 1), (8, 13, 4 * RATE_HZ // 5, 1)]
    yield chunk(0, samples=RATE_HZ, words=words)
    stream.cancelled.wait(5.0)


async def test_an_interruption_tells_which_word_was_being_said(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(playback, "time", clock)
    triton.script = says_words
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="One two three. ", context_id="a")
        await many.hear()
        clock.now_s = 0.5
        await many.say(context_id="a", close_context=True)
        told = await many.hear()
    assert told["isFinal"] and told["heard"] == {"text": "One two", "lastWord": "two", "audioMs": 500}


async def test_who_interrupts_what_was_sent_and_is_still_played_is_told_so(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speech is sent sooner than it is heard: a turn may be over long before its listener breaks in."""
    clock = Clock()
    monkeypatch.setattr(playback, "time", clock)
    triton.script = lambda stream: iter(
        [chunk(0, samples=RATE_HZ, is_last=True, words=[(0, 3, 0, 1)]), final()]
    )
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="One.", context_id="a", flush=True)
        await many.say(context_id="a", close_context=True)
        await many.hear_turn()
        clock.now_s = 0.25
        await many.say(context_id="a", close_context=True)
        assert await many.hear() == {
            "heard": {"text": "One", "lastWord": "One", "audioMs": 250}, "contextId": "a"
        }  # fmt: skip
        clock.now_s = 2.0
        await many.say(context_id="a", close_context=True)
        await many.say(text="Two.", context_id="b", flush=True)
        assert "audio" in await many.hear()


# What travels.


@pytest.mark.parametrize(
    ("output_format", "name", "rate_hz"),
    [("ulaw_8000", "mulaw", 8_000), ("pcm_16000", "pcm", 16_000), ("mp3_22050_32", "mp3", 22_050)],
)
async def test_a_turn_is_one_file_in_the_format_that_was_asked_for(
    open_door: Open, triton: FakeTriton, output_format: str, name: str, rate_hz: int
) -> None:
    triton.script = lambda stream: iter(
        [chunk(0, samples=RATE_HZ // 2), chunk(1, samples=RATE_HZ // 2, is_last=True), final()]
    )
    async with open_door() as door, line(door, ONE, output_format=output_format) as one:
        await one.say(text="One. Two. ")
        await one.say(text="")
        audio, decoded_hz = decoded(name, audio_of(await one.hear_turn()), rate_hz)
    assert decoded_hz == rate_hz
    assert len(audio) / rate_hz == pytest.approx(2 + SENTENCE_PAUSE_S, abs=0.1)


class Clock:
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


async def test_a_pause_is_no_longer_than_its_listener_has_waited(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(playback, "time", clock)
    triton.script = speaks(1)
    async with open_door() as door, line(door, MANY) as many:
        lengths = []
        # Before the second clause its listener has waited a tenth of a second, before the third for long.
        for clock.now_s in (0.0, SAMPLES / RATE_HZ + 0.1, 60.0):
            await many.say(text="Hello. ", context_id="a")
            lengths.append(len(audio_of([await many.hear()])) // 2)
    pause = round((SENTENCE_PAUSE_S - 0.1) * RATE_HZ)
    assert lengths == [SAMPLES, pytest.approx(SAMPLES + pause, abs=1), SAMPLES]


# What is not served.


@pytest.mark.parametrize(
    ("voice", "query", "headers", "status", "says"),
    [
        ("nobody", {}, {}, 400, "voice: 'nobody' is not accepted; allowed: slt, rms"),
        ("slt", {"output_format": "wav"}, {}, 400, "output_format: 'wav'"),
        ("slt", {"enable_ssml_parsing": "true"}, {}, 400, "enable_ssml_parsing"),
        ("slt", {}, {"xi-api-key": "two"}, 401, "this key is not accepted"),
        ("slt", {}, {"Origin": "https://b.example"}, 403, "pages of https://b.example are not let in"),
    ],
)
async def test_a_wrong_address_is_refused_before_it_is_accepted(
    open_door: Open, voice: str, query: dict[str, str], headers: dict[str, str], status: int, says: str
) -> None:
    async with open_door(api_keys=("one",), allow_origins=("https://a.example",)) as door:
        with pytest.raises(InvalidStatus) as refused:
            async with line(door, MANY, voice, {"xi-api-key": "one", **headers}, **query):
                pass
        assert refused.value.response.status_code == status
        assert says in json.loads(refused.value.response.body)["error"]["message"]
        page = (await door.http.get("/metrics")).text
        assert f'status="{status}"}} 1.0' in page


async def test_an_address_that_is_none_is_refused(open_door: Open) -> None:
    async with open_door() as door:
        with pytest.raises(InvalidStatus, match="403"):
            async with line(door, "stream-output"):
                pass


@pytest.mark.parametrize("origin", ["https://a.example", "http://127.0.0.1:{port}"])
async def test_pages_that_may_are_let_in(open_door: Open, origin: str) -> None:
    async with open_door(allow_origins=("https://a.example",)) as door:
        own = {"Origin": origin.format(port=door.port)}
        async with line(door, MANY, headers=own) as let_in:
            await let_in.say(text="Hello. ")
            assert audio_of([await let_in.hear()])


@pytest.mark.parametrize("kind", [ONE, MANY])
@pytest.mark.parametrize(
    ("sent", "code", "says"),
    [
        (b"\x00\xff", 1008, "a binary message is not accepted"),
        ("{", 1008, "cannot be read as JSON"),
        ("[]", 1008, "a JSON object"),
        ('{"text": "Hello \\ud83d"}', 1008, "half a surrogate pair"),
        ('{"text": 5}', 1008, "a string"),
        (json.dumps({"text": "a" * 20_001}), 1008, "up to 20,000 characters"),
        (json.dumps({"text": "a" * 5_000}), 1009, None),
    ],
)
async def test_a_message_that_cannot_be_read_ends_the_connection(
    open_door: Open, triton: FakeTriton, kind: str, sent: str | bytes, code: int, says: str | None
) -> None:
    triton.script = stalls(1)
    limits = SpeechLimits(body_bytes=4_000) if code == 1009 else SpeechLimits()
    async with open_door(limits=limits) as door, line(door, kind) as bad:
        await bad.say(text="Hello. ")
        await bad.hear()
        await bad.websocket.send(sent)
        if says is not None:
            told = await bad.hear()
            assert says in told["error"] and told["message"] == told["error"] and told["code"] == 400
        assert (await bad.end()).rcvd.code == code
        assert await cancelled(triton.streams[0])


async def test_text_that_is_not_utf_8_ends_the_connection(open_door: Open) -> None:
    async with open_door() as door, line(door, MANY) as bad:
        await bad.websocket.send(b"\xff\xfe", text=True)
        assert (await bad.end()).rcvd.code == 1007


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door that soon has waited long enough."""

    def read(voice: str, query: Mapping[str, str]) -> Manner:
        return replace(read_manner(voice, query), inactivity_s=0.05)

    monkeypatch.setattr(writing_door, "read_manner", read)


async def test_who_says_nothing_is_left(open_door: Open, impatient: None) -> None:
    async with open_door() as door, line(door, MANY) as silent:
        assert "nothing was said for 0.05 s" in (await silent.hear())["error"]
        assert (await silent.end()).rcvd.code == 1008


async def test_who_is_spoken_to_need_not_say_anything(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    passed: asyncio.Queue[bool] = asyncio.Queue()

    def noted(one: turn.Turn) -> bool:
        passed.put_nowait(is_speaking(one))
        return is_speaking(one)

    is_speaking = turn.Turn.is_speaking.fget
    monkeypatch.setattr(turn.Turn, "is_speaking", property(noted))
    triton.script = stalls(1)
    async with open_door() as door, line(door, MANY) as listening:
        await listening.say(text="Hello. ", context_id="a")
        assert [await passed.get() for _ in range(3)] == [True] * 3
        await listening.say(context_id="a", close_context=True)
        await listening.hear_turn()
        assert (await listening.end()).rcvd.code == 1008


async def test_who_takes_nothing_is_left(open_door: Open, triton: FakeTriton) -> None:
    triton.script = speaks_on
    async with open_door(limits=SpeechLimits(reader_s=0.2)) as door, line(door, ONE) as deaf:
        deaf.websocket.transport.pause_reading()
        await deaf.say(text="Hello. ")
        assert await asyncio.to_thread(triton.arrived.wait, 5.0)
        assert await cancelled(triton.streams[0])
        deaf.websocket.transport.abort()


async def test_a_failure_is_told_to_its_own_context_alone(open_door: Open, triton: FakeTriton) -> None:
    def script(stream: FakeStream) -> Iterator[Any]:
        if stream.text == "Bad.":
            yield chunk(0)
            stream.fail(grpc.StatusCode.INTERNAL, "the vocoder failed on chunk 1")
        yield from speaks(1)(stream)

    triton.script = script
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Bad. ", context_id="a")
        *audio, told = await many.hear_turn()
        assert len(audio) == 1 and told["contextId"] == "a" and told["code"] == 500
        assert told["error"] == "the vocoder failed on chunk 1"
        # What its client goes on to write is not spoken; a new turn of that name is.
        await many.say(text="Lost. ", context_id="a")
        await many.say(text="Good. ", context_id="b")
        assert (await many.hear())["contextId"] == "b"
        await many.say(context_id="a", close_context=True)
        await many.say(text="New. ", context_id="a")
        assert (await many.hear())["contextId"] == "a"
    assert texts(triton) == ["Bad.", "Good.", "New."]


@pytest.mark.parametrize(
    ("script", "code", "status"),
    [
        ("INVALID_ARGUMENT: speed: 9 is no", 1008, 400),
        ("RESOURCE_EXHAUSTED: full", 1013, 429),
        ("oh", 1011, 500),
    ],
)
async def test_a_failure_of_the_only_turn_ends_the_connection(
    open_door: Open, triton: FakeTriton, script: str, code: int, status: int
) -> None:
    def fail(stream: FakeStream) -> Iterator[Any]:
        stream.fail(grpc.StatusCode.INTERNAL, script)
        yield

    triton.script = fail
    async with open_door() as door, line(door, ONE) as one:
        await one.say(text="Hello. ")
        assert (await one.hear())["code"] == status
        assert (await one.end()).rcvd.code == code


async def test_too_much_text_that_waits_is_refused(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="Hello. ", context_id="a")
        await many.hear()
        for _ in range(3):
            await many.say(text="a " * 9_000, context_id="a")
        *_, told = await many.hear_turn()
        assert "over 20,000 characters wait" in told["error"]
        assert await cancelled(triton.streams[0])


async def test_contexts_are_bounded(open_door: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_TURNS", 2)
    async with open_door() as door, line(door, MANY) as many:
        for context in ("a", "b", "c"):
            await many.say(text=" ", context_id=context)
        [told] = await many.hear_turn()
        assert told["contextId"] == "c" and "2 are open" in told["error"]
        await many.say(context_id="a", close_context=True)
        assert await many.hear_turn() == []
        await many.say(text="Hello. ", context_id="c")
        assert (await many.hear())["contextId"] == "c"


async def test_streams_per_key(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    key = {"xi-api-key": "one"}
    async with open_door(api_keys=("one",), streams_per_key=1) as door, line(door, MANY, headers=key) as many:
        await many.say(text="One. ", context_id="a")
        await many.hear()
        await many.say(text="Two. ", context_id="b")
        [told] = await many.hear_turn()
        assert told["code"] == 429 and told["contextId"] == "b"


async def test_characters_per_key_are_counted_by_the_clause(open_door: Open, triton: FakeTriton) -> None:
    key = {"xi-api-key": "one"}
    async with (
        open_door(api_keys=("one",), characters_per_key=7) as door,
        line(door, MANY, headers=key) as many,
    ):
        await many.say(text="One. Two. ", context_id="a")
        *spoken, told = await many.hear_turn()
        assert spoken and told["code"] == 429 and "7 characters of this minute" in told["error"]
    assert [stream.text for stream in triton.streams] == ["One."]


async def test_a_draining_door_hears_turns_out_and_begins_none(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, line(door, MANY) as many:
        await many.say(text="One. ", context_id="a")
        assert audio_of([await many.hear()])
        door.server.stop()
        with pytest.raises(InvalidStatus, match="503"):
            async with line(door, MANY):
                pass
        await many.say(text="Other. ", context_id="b")
        [told] = [message for message in await many.hear_turn() if message["contextId"] == "b"]
        assert told["code"] == 503
        await many.say(text="Two. ", context_id="a")
        await many.say(context_id="a", flush=True)
        await many.say(context_id="a", close_context=True)
        await many.hear_turn()
        assert (await many.end()).rcvd.code == 1012
    assert texts(triton) == ["One.", "Two."]


async def test_what_is_heard_is_what_was_spoken(open_door: Open, triton: FakeTriton) -> None:
    triton.script = speaks(NUM_CHUNKS)
    async with open_door() as door, line(door, ONE) as one:
        await one.say(text="Hello. ")
        await one.say(text="")
        heard, _ = decoded("pcm", audio_of(await one.hear_turn()))
    ramps = [np.linspace(0.1, 0.1 + 0.05 * index, SAMPLES) for index in range(NUM_CHUNKS)]
    assert np.abs(heard - np.concatenate(ramps)).max() < 1e-4
