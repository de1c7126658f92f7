from __future__ import annotations

import json

import pytest
from talkahead_client.protocol import PARAMETERS
from talkahead_gateway.encoding import AUDIO_FORMATS
from talkahead_gateway.framing import BareAudio, ServerSentEvents
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.speech_request import MODELS, SpeechRequest, read_speech_request


def read(**fields: object) -> SpeechRequest:
    given = {"input": "Hello.", "model": "tts-1", "voice": "heart", **fields}
    return read_speech_request(json.dumps(given).encode())


def refused(body: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_speech_request(body)
    assert caught.value.status == 400
    return caught.value


def test_what_is_not_given_is_as_openai_has_it() -> None:
    asked = read()
    assert (asked.text, asked.voice) == ("Hello.", "heart")
    assert asked.audio_format is AUDIO_FORMATS["mp3"] and isinstance(asked.framing, BareAudio)
    assert asked.rate_hz == 24_000 and asked.parameters == {}


def test_what_is_given_is_taken() -> None:
    asked = read(
        voice={"id": "alto"}, instructions="Whisper.", response_format="pcm", speed=1.2, stream_format="sse"
    )
    assert asked.voice == "alto" and asked.audio_format is AUDIO_FORMATS["pcm"]
    assert isinstance(asked.framing, ServerSentEvents)
    assert asked.parameters == {"speed": 1.2}


@pytest.mark.parametrize(
    ("response_format", "sample_rate", "rate_hz"),
    [("pcm", 8_000, 8_000), ("mp3", 44_100, 44_100), ("mulaw", None, 8_000), ("mulaw", 16_000, 16_000)],
)
def test_a_rate_may_be_asked_for(response_format: str, sample_rate: int | None, rate_hz: int) -> None:
    asked = read(response_format=response_format, sample_rate=sample_rate)
    assert asked.rate_hz == rate_hz and isinstance(asked.rate_hz, int)


def test_a_rate_that_a_format_has_not_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(Refusal, match=r"sample_rate: 44100 is not .* in Hz, 8000, 16000, 24000, 48000$"):
        read(response_format="opus", sample_rate=44_100)


def test_a_servers_own_parameters_go_along() -> None:
    assert read(seed=7, drafter="heads", pin_draft=True).parameters == {
        "seed": 7, "drafter": "heads", "pin_draft": True,
    }  # fmt: skip


@pytest.mark.parametrize("speed", [1, 1.0, None])
def test_the_usual_speed_is_not_asked_for(speed: float | None) -> None:
    assert read(speed=speed).parameters == {}


@pytest.mark.parametrize("speed", [True, 0.25, 4.0, "fast", 10**400])
def test_any_other_speed_is_the_servers_to_judge(speed: object) -> None:
    assert read(speed=speed).parameters == {"speed": speed}


@pytest.mark.parametrize("model", MODELS)
def test_openais_models_are_names_of_ours(model: str) -> None:
    assert read(model=model) == read()


def test_null_is_as_if_a_field_were_not_there() -> None:
    assert read(response_format=None, stream_format=None, instructions=None) == read()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("input", 5, "a string"),
        ("input", None, "a string"),
        ("model", "whisper-1", "talkahead, tts-1"),
        ("model", ["tts-1"], "talkahead, tts-1"),
        ("voice", None, '{"id": name}'),
        ("voice", {"id": 3}, '{"id": name}'),
        ("voice", {"name": "heart"}, '{"id": name}'),
        ("voice", {"id": "heart", "pitch": 2}, '{"id": name}'),
        ("instructions", {"be": "kind"}, "a string"),
        ("response_format", "ogg", "mp3, opus, aac, flac, wav, pcm, mulaw, alaw"),
        ("sample_rate", 11_000, "8000, 16000, 22050, 24000, 32000, 44100, 48000"),
        ("sample_rate", "24000", "8000, 16000"),
        ("sample_rate", True, "8000, 16000"),
        ("sample_rate", [8_000], "8000, 16000"),
        ("stream_format", "websocket", "audio, sse"),
        ("stream_format", 1, "audio, sse"),
        ("speed", [1.0], "a string, number or boolean"),
        ("seed", {"value": 1}, "a string, number or boolean"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(field: str, value: object, says: str) -> None:
    with pytest.raises(Refusal) as caught:
        read(**{field: value})
    assert caught.value.param == field and str(caught.value).startswith(f"{field}: {value!r} is not accepted")
    assert says in str(caught.value).partition("allowed: ")[2]


def test_an_unknown_field_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        Refusal, match=r"field: 'pitch' is not accepted; allowed: input, .*stream_format, "
    ) as it:
        read(pitch=2)
    assert all(name in str(it.value) for name in PARAMETERS)


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(Refusal) as caught:
        read(response_format="x" * 10_000)
    assert len(str(caught.value)) < 200 and "(10002 characters)" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"{'input': 1}",
        b'{"input": "Hello.", "speed": NaN}',
        b'{"speed": Infinity}',
        b'{"speed": ' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    assert "cannot be read as JSON" in str(refused(body))


@pytest.mark.parametrize("body", [b"[]", b'"Hello."', b"null", b"3"])
def test_json_that_is_no_object_is_refused(body: bytes) -> None:
    assert "a JSON object" in str(refused(body))
