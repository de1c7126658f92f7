from __future__ import annotations

import json

import pytest
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.written_message import MAX_CHARACTERS, WrittenMessage, read_written_message


def read(**fields: object) -> WrittenMessage:
    return read_written_message(json.dumps(fields))


def test_what_is_not_there_is_not_asked_for() -> None:
    assert read() == WrittenMessage("", None, False, False, False, None)
    assert read(text=None, flush=None, context_id=None, voice_settings=None) == read()


def test_what_plugins_send_is_taken() -> None:
    # Pipecat 1.14 and LiveKit 1.8
    opening = {"text": " ", "context_id": "a", "voice_settings": {"stability": 0.5, "speed": 1.1}}
    assert read(**opening) == WrittenMessage(" ", "a", False, False, False, 1.1)
    assert read(context_id="a", flush=True) == WrittenMessage("", "a", True, False, False, None)
    assert read(context_id="a", close_context=True) == WrittenMessage("", "a", False, True, False, None)
    assert read(close_socket=True) == WrittenMessage("", None, False, False, True, None)
    # ElevenLabs 2.78
    opening = {"text": " ", "try_trigger_generation": True, "voice_settings": None,
               "generation_config": {"chunk_length_schedule": [50]}}  # fmt: skip
    assert read(**opening) == WrittenMessage(" ", None, False, False, False, None)
    assert read(contextId="b", text="Hi ").context == "b"


@pytest.mark.parametrize("speed", [1, 1.0, None])
def test_the_usual_speed_is_not_asked_for(speed: float | None) -> None:
    assert read(text=" ", voice_settings={"speed": speed}).speed is None


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert read_written_message('{"text": "\\ud83d\\ude00 "}').text == "\U0001f600 "


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("text", 5, "a string"),
        ("text", ["Hello"], "a string"),
        ("text", "a" * (MAX_CHARACTERS + 1), "up to 20,000 characters"),
        ("text", "Hello \ud83d", "half a surrogate pair"),
        ("context_id", 7, "a string"),
        ("flush", "true", "true or false"),
        ("close_context", 1, "true or false"),
        ("close_socket", [], "true or false"),
        ("voice_settings", [1], "an object"),
        ("pronunciation_dictionary_locators", [{"version_id": "x"}], "none"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(field: str, value: object, allowed: str) -> None:
    with pytest.raises(Refusal, match=rf"^{field}: ") as caught:
        read(**{field: value})
    assert allowed in str(caught.value)


@pytest.mark.parametrize("speed", [True, "fast", [1]])
def test_a_speed_that_is_no_number_is_refused(speed: object) -> None:
    with pytest.raises(Refusal, match=r"^voice_settings.speed: .* allowed: a number"):
        read(voice_settings={"speed": speed})


@pytest.mark.parametrize("received", ["", "{", "text", '{"text": NaN}', "[" * 100_000])
def test_what_is_not_json_is_refused(received: str) -> None:
    with pytest.raises(Refusal, match="the message cannot be read as JSON"):
        read_written_message(received)


@pytest.mark.parametrize("received", ["[]", '"Hello."', "null"])
def test_json_that_is_no_object_is_refused(received: str) -> None:
    with pytest.raises(Refusal, match="a JSON object"):
        read_written_message(received)
