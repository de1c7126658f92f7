"""The body of `POST /v1/audio/speech`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from talkahead_client import protocol
from talkahead_client.protocol import ParameterValue

from talkahead_gateway.encoding import AUDIO_FORMATS, AudioFormat
from talkahead_gateway.framing import FRAMINGS, Framing
from talkahead_gateway.json_object import read_json_object
from talkahead_gateway.refusal import Refusal, one_of

MODELS = ("talkahead", "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15")
"""The one that is served, and OpenAI's names for it."""

_FIELDS = ("input", "model", "voice", "instructions", "response_format", "sample_rate", "stream_format")
"""OpenAI's own, and `sample_rate`, which others that speak its interface have."""
_ALLOWED_FIELDS = (*_FIELDS, *protocol.PARAMETERS)


@dataclass(frozen=True)
class SpeechRequest:
    """What is to be spoken, how, and in which form it is to travel."""

    text: str
    voice: str
    """As it was asked for; each server makes its own of it."""
    audio_format: AudioFormat
    rate_hz: int
    framing: Framing
    parameters: Mapping[str, ParameterValue]
    """For the server, which knows what it allows."""


def read_speech_request(body: bytes) -> SpeechRequest:
    """Raises Refusal for what is not JSON, or names what is not known here; values of parameters, the length
    of the text and the names of voices are the servers' to judge."""
    fields = _Fields(read_json_object(body, "body", "input, model and voice"))
    for name in fields.names:
        if name not in _ALLOWED_FIELDS:
            raise Refusal.of_field("field", name, one_of(_ALLOWED_FIELDS))
    fields.choice("model", MODELS)
    fields.text("instructions", "")
    name = fields.choice("response_format", tuple(AUDIO_FORMATS), next(iter(AUDIO_FORMATS)))
    audio_format = AUDIO_FORMATS[name]
    framing = fields.choice("stream_format", tuple(FRAMINGS), next(iter(FRAMINGS)))
    return SpeechRequest(
        text=fields.text("input"),
        voice=fields.voice(),
        audio_format=audio_format,
        rate_hz=fields.rate_hz("sample_rate", audio_format),
        framing=FRAMINGS[framing],
        parameters=dict(fields.parameters()),
    )


class _Fields:
    """A JSON object, read field by field; null is as if a field were not there."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {name: value for name, value in given.items() if value is not None}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._given)

    def text(self, name: str, default: str | None = None) -> str:
        return self._string(name, "a string", default)

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        chosen = self._string(name, one_of(choices), default)
        if chosen not in choices:
            raise Refusal.of_field(name, chosen, one_of(choices))
        return chosen

    def voice(self) -> str:
        """A name, or an object that holds it."""
        value = self._given.get("voice")
        name = value.get("id") if isinstance(value, dict) and set(value) == {"id"} else value
        if not isinstance(name, str):
            raise Refusal.of_field("voice", value, 'a voice\'s name as a string, or {"id": name}')
        return name

    def rate_hz(self, name: str, audio_format: AudioFormat) -> int:
        value = self._given.get(name, audio_format.rate_hz)
        if isinstance(value, bool) or value not in audio_format.rates_hz:
            allowed = one_of(tuple(map(str, audio_format.rates_hz)))
            raise Refusal.of_field(name, value, f"for this response_format, in Hz, {allowed}")
        return int(value)

    def parameters(self) -> Iterator[tuple[str, ParameterValue]]:
        for name, value in self._given.items():
            if name not in protocol.PARAMETERS:
                continue
            if not isinstance(value, str | int | float):
                raise Refusal.of_field(name, value, "a string, number or boolean")
            # OpenAI's default, which some clients always send; not every server's codec can change its pace.
            if name != "speed" or isinstance(value, bool) or value != 1:
                yield name, value

    def _string(self, name: str, allowed: str, default: str | None) -> str:
        value = self._given.get(name, default)
        if not isinstance(value, str):
            raise Refusal.of_field(name, value, allowed)
        return value
