"""What a client of Riva's speech synthesis asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from talkahead_client.protocol import PARAMETERS, ParameterValue

from talkahead_gateway.encoding import AUDIO_FORMATS, AudioFormat
from talkahead_gateway.refusal import Refusal, one_of
from talkahead_gateway.riva_messages import SynthesizeSpeechRequest, read_message

MODEL = "talkahead"
"""What Riva calls a voice, whose subvoices are the server's voices: `talkahead.heart` is one's whole name."""

ENCODINGS = {1: "pcm", 2: "flac", 3: "mulaw", 4: "opus", 20: "alaw"}
"""Riva's numbers; its own speech synthesis has the first and OGGOPUS alone."""
_ENCODING_NAMES = "LINEAR_PCM (1), FLAC (2), MULAW (3), OGGOPUS (4), ALAW (20)"
_UNSPECIFIED = 0
_DEFAULT_ENCODING = 1

_NOT_HERE = {
    "zero_shot_data": "none; a recording is left at POST /v1/audio/voices, and its name is a voice",
    "custom_dictionary": "none; [tomato](/T AH0 M AA1 T OW0/) in the text says how a word is spoken",
}
"""Fields that would have an effect elsewhere, and what is allowed instead."""


@dataclass(frozen=True)
class RivaRequest:
    """One message: what is to be spoken, how, and in which form it is to travel."""

    text: str
    voice: str | None
    """As it was asked for; None = each server's first."""
    audio_format: AudioFormat
    rate_hz: int
    parameters: Mapping[str, ParameterValue]
    """For the server, which knows what it allows."""
    wants_word_times: bool
    id: str
    """The client's own name for it; answers carry it."""


def read_riva_request(sent: bytes, language: str) -> RivaRequest:
    """Raises Refusal for what cannot be done. A field that is not set asks for what is usual.

    Args:
        sent: a `SynthesizeSpeechRequest`, as it came.
        language: that is spoken here.
    """
    message = read_message(SynthesizeSpeechRequest, sent)
    _check_language(message.language_code, language)
    _refuse_what_is_not_here(message)
    audio_format = _audio_format(message.encoding)
    return RivaRequest(
        text=message.text,
        voice=message.voice_name.removeprefix(f"{MODEL}.") if message.voice_name else None,
        audio_format=audio_format,
        rate_hz=_rate_hz(message.sample_rate_hz, audio_format),
        parameters=dict(_parameters(message.custom_configuration)),
        wants_word_times=message.enable_word_time_offsets,
        id=message.id.value,
    )


def _check_language(asked: str, language: str) -> None:
    if asked and asked.lower() != language.lower():
        raise Refusal.of_field("language_code", asked, language)


def _refuse_what_is_not_here(message: Any) -> None:  # noqa: ANN401
    for field, value in message.ListFields():
        if field.name in _NOT_HERE:
            shown = "a recording" if field.name == "zero_shot_data" else value
            raise Refusal.of_field(field.name, shown, _NOT_HERE[field.name])


def _audio_format(encoding: int) -> AudioFormat:
    number = _DEFAULT_ENCODING if encoding == _UNSPECIFIED else encoding
    if number not in ENCODINGS:
        raise Refusal.of_field("encoding", encoding, _ENCODING_NAMES)
    return AUDIO_FORMATS[ENCODINGS[number]]


def _rate_hz(asked: int, audio_format: AudioFormat) -> int:
    if not asked:
        return audio_format.rate_hz
    if asked not in audio_format.rates_hz:
        allowed = one_of(tuple(map(str, audio_format.rates_hz)))
        raise Refusal.of_field("sample_rate_hz", asked, f"for this encoding, {allowed}")
    return asked


def _parameters(entries: Any) -> Iterator[tuple[str, ParameterValue]]:  # noqa: ANN401
    """The server's own, by name."""
    for entry in entries:
        kind = PARAMETERS.get(entry.key)
        if kind is None:
            raise Refusal.of_field("custom_configuration", entry.key, one_of(tuple(PARAMETERS)))
        try:
            yield entry.key, _truth(entry.value) if kind is bool else kind(entry.value)
        except ValueError:
            raise Refusal.of_field(entry.key, entry.value, _KINDS[kind]) from None


_KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"
