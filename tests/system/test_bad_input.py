"""Requests that cannot be served: each is told why, and nobody else notices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hearing import SAME_FRAMES, Company, Utterance, difference, hear, speak
from raw import RawStream, Tensor, refusal, speech_request, strings, tensors_of
from served import Served
from shipped import SPEECH, VOICES
from talkahead_client import Client, InvalidRequest
from talkahead_client.protocol import ParameterValue
from texts import prose
from tritonclient.grpc import service_pb2
from waiting import eventually

HELLO = "Hello there."
NEIGHBOUR: dict[str, Any] = {"text": prose(300), "seed": 11, "max_seconds": 6.0}


@dataclass(frozen=True)
class Bad:
    """A request and what its refusal must say: field, value and what is allowed."""

    request: service_pb2.ModelInferRequest
    says: tuple[str, ...]


def bad_text(text: str | bytes, *says: str) -> Bad:
    return Bad(speech_request(text), ("TEXT", *says))


def bad_parameter(name: str, value: ParameterValue, *says: str) -> Bad:
    return Bad(speech_request(HELLO, parameters={name: value}), (name, str(value), *says))


def bad_tensor(*says: str, text: str | None = HELLO, **tensors: Tensor) -> Bad:
    return Bad(speech_request(text, tensors), says)


BAD: dict[str, Bad] = {
    "nothing at all": bad_tensor("'tts'", "request has 0 inputs", text=None),
    "a voice without text": bad_tensor("TEXT", "''", "1 to 20,000", text=None, VOICE=strings(VOICES[0])),
    "empty text": bad_text("", "''", "1 to 20,000 characters"),
    "blank text": bad_text(" \t\n\u3000", "' \\t\\n", "allowed: "),
    "20,001 characters": bad_text("word " * 4000 + "w", "word word", "1 to 20,000 characters"),
    "invalid UTF-8": bad_text(b"abc\xff\xfe", r"\xff", "UTF-8", "byte 3"),
    "cut UTF-8": bad_text("caf\u00e9".encode()[:-1], r"\xc3", "UTF-8"),
    "a bell": bad_text("Ring\x07 it.", r"\x07", "without control characters", "character 4"),
    "a null": bad_text("Hello\0there.", r"\x00", "without control characters"),
    "only punctuation": bad_text("... !? --", "'... !? --'", "at least one word or number"),
    "only emoji": bad_text("\U0001f600 \U0001f680", "\U0001f600", "at least one word or number", "emoji"),
    "Han": bad_text("Say \u4f60\u597d to them.", "\u4f60\u597d", "Latin", "Han"),
    "Cyrillic": bad_text("\u043f\u0440\u0438\u0432\u0435\u0442", "\u043f\u0440\u0438", "Latin", "Cyrillic"),
    "Arabic": bad_text("\u0645\u0631\u062d\u0628\u0627", "\u0645\u0631", "Latin", "Arabic"),
    "unknown voice": bad_tensor("VOICE", "'nobody'", "allowed: ", VOICE=strings("nobody")),
    "empty voice": bad_tensor("VOICE", "''", "allowed: ", VOICE=strings("")),
    "voice that is no UTF-8": bad_tensor("VOICE", r"\xff", "UTF-8", VOICE=strings(b"\xff")),
    "text of numbers": bad_tensor("'TEXT'", "INT32", "BYTES", text=None, TEXT=np.ones((1, 1), np.int32)),
    "voice of numbers": bad_tensor("'VOICE'", "FP32", "BYTES", VOICE=np.ones((1, 1), np.float32)),
    "two texts": bad_tensor("'TEXT'", "[-1,1]", "[1,2]", text=None, TEXT=strings("a", "b")),
    "a batch of texts": bad_tensor("batch-size", "<= 1", text=None, TEXT=strings("a", "b", shape=(2, 1))),
    "no batch dimension": bad_tensor("'TEXT'", "[-1,1]", "[1]", text=None, TEXT=strings("a", shape=(1,))),
    "text of no string": bad_tensor("'TEXT'", "[-1,1]", "[1,0]", text=None, TEXT=strings()),
    "unknown tensor": bad_tensor("'SPEED'", "unexpected", SPEED=np.ones((1, 1), np.float32)),
    "temperature NaN": bad_parameter("temperature", math.nan, "from 0 to 2"),
    "temperature infinite": bad_parameter("temperature", math.inf, "from 0 to 2"),
    "temperature negative": bad_parameter("temperature", -0.5, "from 0 to 2"),
    "temperature huge": bad_parameter("temperature", 1e30, "from 0 to 2"),
    "temperature in words": bad_parameter("temperature", "warm", "from 0 to 2"),
    "top_p zero": bad_parameter("top_p", 0.0, "above 0 and up to 1"),
    "top_p NaN": bad_parameter("top_p", math.nan, "above 0 and up to 1"),
    "top_k negative": bad_parameter("top_k", -1, "a whole number from 0"),
    "top_k huge": bad_parameter("top_k", 2**62, "a whole number from 0"),
    "penalty that rewards": bad_parameter("repetition_penalty", 0.9, "from 1 to 2"),
    "window huge": bad_parameter("ras_win_len", 101, "from 0 to 100"),
    "repeats without a window": bad_parameter("ras_win_max_num_repeat", 2, "up to ras_win_len, which is 0"),
    "seed negative": bad_parameter("seed", -1, "a whole number from 0"),
    "seed of half": bad_parameter("seed", 0.5, "a whole number from 0"),
    "max_seconds zero": bad_parameter("max_seconds", 0.0, "above 0"),
    "max_seconds NaN": bad_parameter("max_seconds", math.nan, "above 0"),
    "speed too slow": bad_parameter("speed", 0.5, "a number from 0.7 to 1.4"),
    "speed in words": bad_parameter("speed", "fast", "a number from 0.7 to 1.4"),
    "first_chunk_frames zero": bad_parameter("first_chunk_frames", 0, "a whole number from 1"),
    "chunk_frames huge": bad_parameter("chunk_frames", 10**9, "a whole number from 1"),
    "urgency four": bad_parameter("urgency", 4, "from 1 to 3"),
    "deadline zero": bad_parameter("deadline_ms", 0, "a whole number from 1"),
    "unknown parameter": Bad(
        speech_request(HELLO, parameters={"pitch": 1.5}), ("'pitch'", "temperature", "top_p", "max_seconds")
    ),
    "drafter unknown": bad_parameter("drafter", "guess", "none, heads, mtp, draft_lm"),
    "verifier unknown": bad_parameter("verifier", "trust", "match, ratio, groups, tolerance, topk, biased"),
    "tolerance huge": bad_parameter("tolerance", 99, "from 1 to 16"),
    "pin_draft in words": bad_parameter("pin_draft", "maybe", "true or false"),
    "a pair that makes no sense": Bad(
        speech_request(HELLO, parameters={"drafter": "none", "verifier": "topk"}),
        ("'topk'", "with drafter none: match"),
    ),
    "nodes without a drafter": Bad(
        speech_request(HELLO, parameters={"drafter": "none", "nodes": 16}), ("nodes", "it belongs to heads")
    ),
}  # fmt: skip


HUSH: dict[str, Tensor] = {
    "REFERENCE_AUDIO": np.full((1, 2 * SPEECH.sample_rate_hz), 0.1, np.float32),
    "REFERENCE_TEXT": strings("Hush."),
}


@pytest.fixture(scope="module")
def alone(client: Client) -> Utterance:
    """The neighbour, before there is anything to suffer from."""
    return speak(client, **NEIGHBOUR)


@pytest.fixture
def company(client: Client, alone: Utterance) -> Iterator[None]:
    with Company(client, alone, **NEIGHBOUR):
        yield


@pytest.mark.usefixtures("company")
@pytest.mark.parametrize("name", BAD)
def test_refusal_says_what_is_allowed(name: str, server: Served) -> None:
    bad = BAD[name]
    text = refusal(server.grpc, bad.request)
    assert [part for part in bad.says if part not in text] == [], text


@pytest.mark.usefixtures("company")
@pytest.mark.skipif(SPEECH.has_encoder, reason="the shipped voice's codec takes recordings")
@pytest.mark.parametrize("names", [tuple(HUSH), ("REFERENCE_AUDIO",), ("REFERENCE_TEXT",)])
def test_a_codec_without_an_encoder_takes_no_recording(names: tuple[str, ...], server: Served) -> None:
    text = refusal(server.grpc, speech_request(HELLO, {name: HUSH[name] for name in names}))
    assert "REFERENCE_AUDIO: " in text and "none: this server has voices of its own alone" in text


def test_unknown_voice_lists_the_voices(client: Client) -> None:
    with pytest.raises(InvalidRequest) as refused:
        speak(client, HELLO, voice="nobody")
    assert all(voice in str(refused.value) for voice in client.voices())


@pytest.mark.usefixtures("company")
def test_ten_thousand_digits_are_spoken_as_any_text(client: Client) -> None:
    with client.speak("1234567890" * 1000, max_seconds=1.0) as speech:
        assert hear(speech).stats.frames == SPEECH.frames(1.0)


@pytest.mark.parametrize("request_id", ["the same", ""])
def test_streams_with_the_same_request_id_or_none_keep_apart(
    request_id: str, server: Served, client: Client
) -> None:
    texts = ["The oldest is from last spring.", "Turn left at the next corner."]
    asked = [{"seed": seed, "max_seconds": 1.5} for seed in range(len(texts))]
    alone = [speak(client, text, **options).audio for text, options in zip(texts, asked, strict=True)]
    streams = [
        RawStream(server.grpc, speech_request(text, request_id=request_id, parameters=options))
        for text, options in zip(texts, asked, strict=True)
    ]
    together = [[tensors_of(response) for response in stream if response.outputs] for stream in streams]
    for stream, chunks, audio in zip(streams, together, alone, strict=True):
        stream.vanish()
        assert [int(chunk["CHUNK_INDEX"][0]) for chunk in chunks] == list(range(len(chunks)))
        assert difference(np.concatenate([chunk["AUDIO"] for chunk in chunks]), audio) < SAME_FRAMES


def test_client_that_vanishes_frees_its_slot_and_disturbs_nobody(
    server: Served, client: Client, alone: Utterance
) -> None:
    vanishing = RawStream(server.grpc, speech_request(prose(1_000), request_id="gone"))
    vanishing.first()
    with Company(client, alone, **NEIGHBOUR):
        vanishing.vanish()
    eventually(open_streams(client), lambda streams: streams == 0)


def open_streams(client: Client) -> Callable[[], int]:
    return lambda: int(client.load().details["open_streams"])
