"""Our description of Riva's messages beside its own client's."""

from __future__ import annotations

from typing import Any

import pytest
from riva.client.proto import riva_tts_pb2 as riva
from talkahead_gateway import riva_messages
from talkahead_gateway.riva_request import ENCODINGS

WHOLE = bytes.fromhex(
    "0a0348692e1205656e2d5553180420807d2a05686561727432050a017820143a046120206242090a04736565641201354801"
    "a206040a026d65"
)
"""A request of nvidia-riva-client 2.28.0, which has two fields more than the version that is installed."""

ANSWERED = bytes.fromhex("0a020100120b4a090a024869100518d201a206040a026d65")
"""An answer as that version writes it: a word from 5 to 210 ms."""

MESSAGES = (
    "SynthesizeSpeechRequest",
    "SynthesizeSpeechResponse",
    "RivaSynthesisConfigRequest",
    "RivaSynthesisConfigResponse",
)
NEWER = {"custom_configuration", "enable_word_time_offsets", "transcript", "words"}
NOT_ANSWERED = {"SynthesizeSpeechResponseMetadata": {"text", "processed_text", "predicted_durations"}}


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_are_rivas(name: str) -> None:
    compare(getattr(riva_messages, name).DESCRIPTOR, getattr(riva, name).DESCRIPTOR)


def compare(ours: Any, theirs: Any) -> None:  # noqa: ANN401
    own_fields, their_fields = ours.fields_by_name, theirs.fields_by_name
    assert set(own_fields) - NEWER == set(their_fields) - NOT_ANSWERED.get(theirs.name, set())
    for name in set(own_fields) & set(their_fields):
        own, their = own_fields[name], their_fields[name]
        assert (own.number, own.label) == (their.number, their.label)
        if own.message_type is not None:
            compare(own.message_type, their.message_type)
        else:
            assert own.type == (own.TYPE_INT32 if their.type == own.TYPE_ENUM else their.type)


def test_the_service_is_rivas() -> None:
    assert riva.DESCRIPTOR.services_by_name["RivaSpeechSynthesis"].full_name == riva_messages.SERVICE


def test_encodings_are_rivas() -> None:
    names = {"pcm": "LINEAR_PCM", "flac": "FLAC", "mulaw": "MULAW", "opus": "OGGOPUS", "alaw": "ALAW"}
    encoding = riva.SynthesizeSpeechRequest.DESCRIPTOR.fields_by_name["encoding"].enum_type
    assert {encoding.values_by_name[names[name]].number: name for name in ENCODINGS.values()} == ENCODINGS


def test_what_a_newer_client_sends_is_read() -> None:
    asked = riva_messages.SynthesizeSpeechRequest.FromString(WHOLE)
    assert asked.SerializeToString() == WHOLE
    assert [(entry.key, entry.value) for entry in asked.custom_configuration] == [("seed", "5")]
    assert (asked.text, asked.voice_name, asked.id.value) == ("Hi.", "heart", "me")
    assert (asked.encoding, asked.sample_rate_hz, asked.enable_word_time_offsets) == (4, 16_000, True)


def test_what_is_answered_is_read_by_a_newer_client() -> None:
    response = riva_messages.SynthesizeSpeechResponse(audio=b"\x01\x00", id={"value": "me"})
    response.meta.words.add(word="Hi", start_time=5, end_time=210)
    assert response.SerializeToString() == ANSWERED
