"""Riva's door on loopback before a server that plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
from answering import Answering, Open, metric
from decoded_audio import decoded
from fake_triton import SAMPLES, FakeTriton, Response, chunk, final, plays, speaks_on, stalls
from talkahead_gateway import playback
from talkahead_gateway.clause_cutter import SENTENCE_PAUSE_S
from talkahead_gateway.riva_messages import (
    SERVICE,
    RivaSynthesisConfigRequest,
    RivaSynthesisConfigResponse,
    SynthesizeSpeechRequest,
    SynthesizeSpeechResponse,
)
from talkahead_gateway.speech_door import SpeechLimits

RATE_HZ = 24_000
ONLINE = f"/{SERVICE}/SynthesizeOnline"
ENTRY = {"key": "seed", "value": "5"}


@dataclass(frozen=True)
class Stub:
    """The service's methods, called as Riva's clients call them."""

    synthesize: Any
    synthesize_online: Any
    configuration: Any


@asynccontextmanager
async def calling(door: Answering) -> AsyncIterator[Stub]:
    async with grpc.aio.insecure_channel(door.riva) as channel:
        asking, answered = SynthesizeSpeechRequest.SerializeToString, SynthesizeSpeechResponse.FromString
        yield Stub(
            channel.unary_unary(f"/{SERVICE}/Synthesize", asking, answered),
            channel.stream_stream(ONLINE, asking, answered),
            channel.unary_unary(
                f"/{SERVICE}/GetRivaSynthesisConfig",
                RivaSynthesisConfigRequest.SerializeToString,
                RivaSynthesisConfigResponse.FromString,
            ),
        )


def asked(text: str = "Hello.", **fields: Any) -> Any:  # noqa: ANN401
    usual = {"encoding": 1, "sample_rate_hz": RATE_HZ, "language_code": "en-US"}
    return SynthesizeSpeechRequest(text=text, **{**usual, **fields})


async def heard(call: AsyncIterator[Any]) -> bytes:
    return b"".join([response.audio async for response in call])


async def status_of(call: Any) -> grpc.aio.AioRpcError:  # noqa: ANN401
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (heard(call) if hasattr(call, "__aiter__") else call)
    return caught.value


async def test_speech_comes_whole(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, calling(door) as stub:
        whole = await stub.synthesize(asked(id={"value": "mine"}))
        in_pieces = [piece async for piece in stub.synthesize_online([asked(id={"value": "mine"})])]
        ok = f'talkahead_gateway_requests_total{{route="{ONLINE}",status="OK"}}'
        assert await metric(door, ok) == 1
        assert await metric(door, f'talkahead_gateway_first_byte_seconds_count{{route="{ONLINE}"}}') == 1
        assert "talkahead_gateway_cut_responses_total{" not in (await door.http.get("/metrics")).text
    assert {piece.id.value for piece in in_pieces} == {whole.id.value} == {"mine"}
    assert len(in_pieces) == 3 and b"".join(piece.audio for piece in in_pieces) == whole.audio
    ramps = [np.linspace(0.1, 0.1 + 0.05 * index, SAMPLES) for index in range(3)]
    assert np.abs(decoded("pcm", whole.audio)[0] - np.concatenate(ramps)).max() < 1e-4
    assert triton.streams[0].text == "Hello."


async def test_what_is_not_said_is_what_is_usual(open_door: Open, triton: FakeTriton) -> None:
    async with open_door() as door, calling(door) as stub:
        response = await stub.synthesize(SynthesizeSpeechRequest(text="Hello."))
    assert len(response.audio) == 3 * 2 * SAMPLES and not response.HasField("id")
    assert [tensor.name for tensor in triton.streams[0].request.inputs] == ["TEXT"]


@pytest.mark.parametrize("voice", ["rms", "talkahead.rms"])
async def test_the_server_hears_voice_and_parameters(open_door: Open, triton: FakeTriton, voice: str) -> None:
    more = {"key": "pin_draft", "value": "true"}, {"key": "speed", "value": "1.2"}
    async with open_door() as door, calling(door) as stub:
        await stub.synthesize(asked(voice_name=voice, custom_configuration=[ENTRY, *more]))
    request = triton.streams[0].request
    assert request.raw_input_contents[1][4:] == b"rms"
    assert request.parameters["seed"].int64_param == 5
    assert request.parameters["pin_draft"].bool_param
    assert request.parameters["speed"].double_param == 1.2


async def test_requests_of_one_call_are_spoken_one_after_the_other(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what is missing of a reader's pause between them."""
    monkeypatch.setattr(playback, "time", SimpleNamespace(monotonic=lambda: 0.0))
    async with open_door() as door, calling(door) as stub:
        said = await heard(stub.synthesize_online([asked("One."), asked("Two"), asked("three.")]))
    assert [stream.text for stream in triton.streams] == ["One.", "Two", "three."]
    audio, _ = decoded("pcm", said)
    assert len(audio) == pytest.approx(3 * 3 * SAMPLES + SENTENCE_PAUSE_S * RATE_HZ, abs=2)
    assert not audio[3 * SAMPLES + 1 : 3 * SAMPLES + round(SENTENCE_PAUSE_S * RATE_HZ) - 1].any()


def words_of(responses: Iterable[Any]) -> list[tuple[str, int, int]]:
    return [(w.word, w.start_time, w.end_time) for response in responses for w in response.meta.words]


async def test_words_have_their_times_in_the_calls_audio(
    open_door: Open, triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told once it is over; the second request's are behind the first one's speech and pause."""
    monkeypatch.setattr(playback, "time", SimpleNamespace(monotonic=lambda: 0.0))
    told = (((0, 2, 120, 1),), ((3, 5, 24, 1), (5, 6, 240, 2)), ())
    triton.script = plays(
        *(chunk(at, is_last=at == 2, words=words) for at, words in enumerate(told)), final()
    )
    first, second = (asked(text, enable_word_time_offsets=True) for text in ("So it.", "On we"))
    async with open_door() as door, calling(door) as stub:
        online = [response async for response in stub.synthesize_online([first, second, asked("Mr. X.")])]
        whole = await stub.synthesize(first)
    assert words_of([whole]) == [("So", 5, 21), ("it", 21, 30)]
    later_ms = 60 + round(1e3 * SENTENCE_PAUSE_S)
    later = [("On", later_ms + 5, later_ms + 21), ("we", later_ms + 21, later_ms + 30)]
    assert words_of(online) == [*words_of([whole]), *later]
    assert [response.HasField("meta") for response in online[:3]] == [False, True, False]


async def test_what_is_not_told_by_word_is_timed_as_a_whole(open_door: Open, triton: FakeTriton) -> None:
    triton.script = plays(chunk(0, words=[(0, 6, 0, 0)]), chunk(1, is_last=True), final())
    async with open_door() as door, calling(door) as stub:
        whole = await stub.synthesize(asked("Hello.", enable_word_time_offsets=True))
    assert words_of([whole]) == [("Hello.", 0, 40)]


async def test_speech_begins_before_the_next_request_comes(open_door: Open, triton: FakeTriton) -> None:
    may_go_on = asyncio.Event()

    async def written() -> AsyncIterator[Any]:
        yield asked("One")
        await may_go_on.wait()
        yield asked("two.")

    async with open_door() as door, calling(door) as stub:
        responses = aiter(stub.synthesize_online(written()))
        assert (await anext(responses)).audio and len(triton.streams) == 1
        may_go_on.set()
        await heard(responses)
    assert len(triton.streams) == 2


@pytest.mark.parametrize(
    ("encoding", "name", "rate_hz"),
    [(4, "opus", 16_000), (2, "flac", 44_100), (3, "mulaw", 8_000), (20, "alaw", 0), (0, "pcm", 22_050)],
)
async def test_encodings(open_door: Open, encoding: int, name: str, rate_hz: int) -> None:
    request = asked(encoding=encoding, sample_rate_hz=rate_hz)
    async with open_door() as door, calling(door) as stub:
        said = await heard(stub.synthesize_online([request]))
    audio, decoded_hz = decoded(name, said, rate_hz or 8_000)
    assert len(audio) / decoded_hz == pytest.approx(3 * SAMPLES / RATE_HZ, abs=0.008)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"encoding": 7}, "encoding: 7 is not accepted; allowed: LINEAR_PCM (1), FLAC (2)"),
        (
            {"sample_rate_hz": 11_025},
            "sample_rate_hz: 11025 is not accepted; allowed: for this encoding, 8000",
        ),
        ({"encoding": 4, "sample_rate_hz": 22_050}, "for this encoding, 8000, 16000, 24000, 48000"),
        ({"language_code": "de-DE"}, "language_code: 'de-DE' is not accepted; allowed: en-US"),
        (
            {"voice_name": "Magpie-Multilingual.EN-US.Leo"},
            "voice_name: 'Magpie-Multilingual.EN-US.Leo' is not",
        ),
        ({"custom_dictionary": "a  b"}, "custom_dictionary: 'a  b' is not accepted; allowed: none"),
        ({"zero_shot_data": {"quality": 20}}, "zero_shot_data: 'a recording' is not accepted; allowed: none"),
        (
            {"custom_configuration": [{"key": "pitch"}]},
            "custom_configuration: 'pitch' is not accepted; allowed",
        ),
        (
            {"custom_configuration": [{"key": "seed", "value": "x"}]},
            "seed: 'x' is not accepted; allowed: a whole",
        ),
        ({"custom_configuration": [{"key": "pin_draft", "value": "1"}]}, "allowed: true or false"),
    ],
)
async def test_what_cannot_be_done_is_refused(
    open_door: Open, triton: FakeTriton, fields: dict[str, Any], sentence: str
) -> None:
    async with open_door() as door, calling(door) as stub:
        for call in (stub.synthesize(asked(**fields)), stub.synthesize_online([asked(**fields)])):
            refused = await status_of(call)
            assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT and sentence in refused.details()
        metric_line = f'talkahead_gateway_requests_total{{route="{ONLINE}",status="INVALID_ARGUMENT"}}'
        assert await metric(door, metric_line) == 1
    assert not triton.streams


async def test_one_call_has_one_form(open_door: Open) -> None:
    async with open_door() as door, calling(door) as stub:
        refused = await status_of(stub.synthesize_online([asked(), asked(sample_rate_hz=8_000)]))
        assert (
            refused.code() is grpc.StatusCode.INVALID_ARGUMENT
            and "one call has the same" in refused.details()
        )
        refused = await status_of(stub.synthesize_online([]))
        assert "ended without a request" in refused.details()


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        ("INVALID_ARGUMENT: TEXT: '' is not accepted; allowed: 1", "INVALID_ARGUMENT", "text: '' is not"),
        ("UNAVAILABLE: the server is shutting down", "UNAVAILABLE", "shutting down"),
        ("INTERNAL: the talker failed", "INTERNAL", "the talker failed"),
        ("RESOURCE_EXHAUSTED: full; try again in about 90 ms", "RESOURCE_EXHAUSTED", "in about 90 ms"),
    ],
)
async def test_what_the_server_refuses_is_a_status(
    open_door: Open, triton: FakeTriton, said: str, code: str, sentence: str
) -> None:
    triton.script = plays(Response(error_message=said))
    async with open_door() as door, calling(door) as stub:
        refused = await status_of(stub.synthesize_online([asked()]))
    assert refused.code().name == code and sentence in refused.details()
    after_ms = dict(refused.trailing_metadata()).get("retry-after-ms")
    assert after_ms == ("90" if code == "RESOURCE_EXHAUSTED" else None)


async def test_a_failure_after_the_first_audio_is_a_status_too(open_door: Open, triton: FakeTriton) -> None:
    triton.script = plays(chunk(0), Response(error_message="INTERNAL: the vocoder failed on chunk 1"))
    async with open_door() as door, calling(door) as stub:
        responses = aiter(stub.synthesize_online([asked()]))
        assert (await anext(responses)).audio
        refused = await status_of(responses)
        assert refused.code() is grpc.StatusCode.INTERNAL and "the vocoder failed" in refused.details()
        assert await metric(door, f'talkahead_gateway_cut_responses_total{{route="{ONLINE}"}}') == 1


@pytest.mark.parametrize("num_chunks", [0, 1])
async def test_a_cancelled_call_takes_its_stream_along(
    open_door: Open, triton: FakeTriton, num_chunks: int
) -> None:
    triton.script = stalls(num_chunks)
    async with open_door() as door, calling(door) as stub:
        call = stub.synthesize_online([asked()])
        if num_chunks:
            assert (await call.read()).audio
        assert await asyncio.to_thread(triton.arrived.wait, 5.0)
        call.cancel()
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)


async def test_a_client_that_takes_nothing_is_left(open_door: Open, triton: FakeTriton) -> None:
    triton.script = speaks_on
    async with open_door(limits=SpeechLimits(reader_s=0.2)) as door, calling(door) as stub:
        call = stub.synthesize_online([asked()])
        assert await asyncio.to_thread(triton.arrived.wait, 5.0)
        assert await asyncio.to_thread(triton.streams[0].cancelled.wait, 5.0)
        refused = await status_of(call)
    assert refused.code() is grpc.StatusCode.DEADLINE_EXCEEDED and "takes nothing" in refused.details()


async def test_a_client_that_says_nothing_is_left(open_door: Open) -> None:
    silent = asyncio.Event()

    async def written() -> AsyncIterator[Any]:
        await silent.wait()
        yield asked()

    async with open_door(limits=SpeechLimits(request_s=0.1)) as door, calling(door) as stub:
        refused = await status_of(stub.synthesize_online(written()))
        silent.set()
    assert refused.code() is grpc.StatusCode.DEADLINE_EXCEEDED and "sends nothing" in refused.details()


async def test_keys_and_what_each_may(open_door: Open, triton: FakeTriton) -> None:
    triton.script = stalls(1)
    own, wrong = {"metadata": (("authorization", "Bearer one"),)}, {"metadata": (("authorization", "one"),)}
    async with open_door(api_keys=("one",), streams_per_key=1) as door, calling(door) as stub:
        for options in ({}, wrong):
            refused = await status_of(stub.synthesize_online([asked()], **options))
            assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
        call = stub.synthesize_online([asked()], **own)
        assert (await call.read()).audio
        refused = await status_of(stub.synthesize(asked(), **own))
        assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "this key" in refused.details()
        body = {"input": "Hello.", "model": "tts-1", "voice": "slt"}
        headers = {"Authorization": "Bearer one"}
        assert (await door.http.post("/v1/audio/speech", json=body, headers=headers)).status_code == 429
        call.cancel()


async def test_what_there_is_is_told_to_all(open_door: Open) -> None:
    async with open_door(api_keys=("one",), language="de-DE") as door, calling(door) as stub:
        [config] = (await stub.configuration(RivaSynthesisConfigRequest())).model_config
        refused = await status_of(stub.configuration(RivaSynthesisConfigRequest(model_name="magpie")))
    assert {entry.key: entry.value for entry in config.parameters} == {
        "language_code": "de-DE",
        "voice_name": "talkahead",
        "subvoices": "slt:0,rms:1",
        "sample_rate": "24000",
    }
    assert refused.details() == "model_name: 'magpie' is not accepted; allowed: talkahead"


async def test_bytes_that_are_no_request(open_door: Open) -> None:
    async with open_door() as door, grpc.aio.insecure_channel(door.riva) as channel:
        for method in ("Synthesize", "SynthesizeOnline", "GetRivaSynthesisConfig"):
            refused = await status_of(channel.unary_unary(f"/{SERVICE}/{method}")(b"\xff" * 20))
            assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "cannot be read as nvidia.riva.tts." in refused.details()


async def test_a_message_that_is_too_large(open_door: Open) -> None:
    async with open_door(limits=SpeechLimits(body_bytes=1000)) as door, calling(door) as stub:
        refused = await status_of(stub.synthesize(asked("a" * 2_000)))
    assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_draining_door_lets_calls_finish_and_nothing_in(open_door: Open, triton: FakeTriton) -> None:
    may_end = asyncio.Event()

    async def written() -> AsyncIterator[Any]:
        yield asked("One")
        await may_end.wait()

    async with open_door() as door, calling(door) as stub:
        responses = aiter(stub.synthesize_online(written()))
        assert (await anext(responses)).audio
        door.server.stop()
        await asyncio.sleep(0)
        for refused in (
            await status_of(stub.synthesize_online([asked()])),
            await status_of(stub.configuration(RivaSynthesisConfigRequest())),
        ):
            assert refused.code() is grpc.StatusCode.UNAVAILABLE and "shutting down" in refused.details()
        assert not door.running.done()
        may_end.set()
        await heard(responses)
        await door.running
