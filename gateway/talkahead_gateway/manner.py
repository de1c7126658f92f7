"""How text that is still being written is to be spoken: its WebSocket's address, as ElevenLabs has it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from talkahead_client.protocol import ParameterValue

from talkahead_gateway.encoding import AUDIO_FORMATS, TELEPHONE_HZ, AudioFormat
from talkahead_gateway.refusal import Refusal, one_of

MAX_INACTIVITY_S = 180
_DEFAULT_INACTIVITY_S = 20
_DEFAULT_FORMAT = "mp3_44100_128"
"""Both as ElevenLabs has them."""


_DIGITS = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True)
class OutputFormat:
    """One value of `output_format`."""

    audio_format: AudioFormat
    rate_hz: int


_BIT_RATES = (
    ("mp3", 22_050, (32,)),
    ("mp3", 24_000, (48,)),
    ("mp3", 44_100, (32, 64, 96, 128, 192)),
    ("opus", 48_000, (32, 64, 96, 128, 192)),
)


def _output_formats() -> Iterator[tuple[str, OutputFormat]]:
    for name, rate_hz, bit_rates in _BIT_RATES:
        for kbit_rate in bit_rates:
            audio_format = replace(AUDIO_FORMATS[name], bit_rate=1_000 * kbit_rate)
            yield f"{name}_{rate_hz}_{kbit_rate}", OutputFormat(audio_format, rate_hz)
    yield "mp3_44100", OutputFormat(replace(AUDIO_FORMATS["mp3"], bit_rate=128_000), 44_100)
    for rate_hz in AUDIO_FORMATS["pcm"].rates_hz:
        yield f"pcm_{rate_hz}", OutputFormat(AUDIO_FORMATS["pcm"], rate_hz)
    for written, name in (("ulaw", "mulaw"), ("alaw", "alaw")):
        yield f"{written}_{TELEPHONE_HZ}", OutputFormat(AUDIO_FORMATS[name], TELEPHONE_HZ)


OUTPUT_FORMATS = dict(_output_formats())
"""By ElevenLabs' names: format, rate in Hz, and thousands of bits a second."""


@dataclass(frozen=True)
class Manner:
    """What holds for all that is said over one WebSocket."""

    voice: str
    output: OutputFormat
    is_whole: bool = False
    """`auto_mode`: every message is a sentence or a phrase that nothing completes."""
    inactivity_s: float = _DEFAULT_INACTIVITY_S
    """For a client to say something, while nothing is being spoken."""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """For the server, which knows what it allows."""


def read_manner(voice: str, query: Mapping[str, str]) -> Manner:
    """Raises Refusal for what cannot be done; what is not known here has no effect."""
    if query.get("enable_ssml_parsing", "false").lower() != "false":
        allowed = "false: what is written is spoken as it stands"
        raise Refusal.of_field("enable_ssml_parsing", query["enable_ssml_parsing"], allowed)
    name = query.get("output_format", _DEFAULT_FORMAT)
    if name not in OUTPUT_FORMATS:
        raise Refusal.of_field("output_format", name, one_of(tuple(OUTPUT_FORMATS)))
    return Manner(
        voice=voice,
        output=OUTPUT_FORMATS[name],
        is_whole=query.get("auto_mode", "false").lower() == "true",
        inactivity_s=_whole(query, "inactivity_timeout", _DEFAULT_INACTIVITY_S, 1, MAX_INACTIVITY_S),
        parameters={"seed": _whole(query, "seed", 0, 0, (1 << 63) - 1)} if "seed" in query else {},
    )


def _whole(query: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    value = query.get(name, str(default))
    if not _DIGITS.fullmatch(value) or not low <= int(value) <= high:
        raise Refusal.of_field(name, value, f"a whole number from {low} to {high}")
    return int(value)
