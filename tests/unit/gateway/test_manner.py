from __future__ import annotations

import pytest
from talkahead_gateway.encoding import AUDIO_FORMATS
from talkahead_gateway.manner import OUTPUT_FORMATS, read_manner
from talkahead_gateway.refusal import Refusal


def test_what_is_not_there_is_as_elevenlabs_has_it() -> None:
    manner = read_manner("heart", {})
    assert manner.output.audio_format.codec == "libmp3lame" and manner.output.rate_hz == 44_100
    assert manner.output.audio_format.bit_rate == 128_000
    assert not manner.is_whole and manner.inactivity_s == 20 and manner.parameters == {}


def test_what_livekit_asks_for() -> None:
    query = {
        "model_id": "eleven_turbo_v2_5",
        "output_format": "mp3_22050_32",
        "enable_ssml_parsing": "false",
        "enable_logging": "true",
        "inactivity_timeout": "180",
        "apply_text_normalization": "auto",
        "sync_alignment": "true",
        "auto_mode": "true",
    }
    manner = read_manner("heart", query)
    assert manner.output.rate_hz == 22_050 and manner.output.audio_format.bit_rate == 32_000
    assert manner.is_whole and manner.inactivity_s == 180


def test_every_format_that_plugins_know_is_one() -> None:
    """LiveKit's `TTSEncoding`, Pipecat's `output_format_from_sample_rate`, ElevenLabs' `OutputFormat`."""
    mp3 = {
        "mp3_22050_32",
        "mp3_24000_48",
        "mp3_44100",
        *(f"mp3_44100_{kbit}" for kbit in (32, 64, 96, 128, 192)),
    }
    opus = {f"opus_48000_{kbit}" for kbit in (32, 64, 96, 128, 192)}
    pcm = {f"pcm_{rate_hz}" for rate_hz in (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)}
    assert set(OUTPUT_FORMATS) == {*mp3, *opus, *pcm, "ulaw_8000", "alaw_8000"}
    assert OUTPUT_FORMATS["ulaw_8000"].audio_format is AUDIO_FORMATS["mulaw"]
    assert all(one.rate_hz in one.audio_format.rates_hz for one in OUTPUT_FORMATS.values())


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("output_format", "mp3", "mp3_22050_32, "),
        ("output_format", "wav_24000", "pcm_24000"),
        ("enable_ssml_parsing", "true", "false"),
        ("inactivity_timeout", "0", "from 1 to 180"),
        ("inactivity_timeout", "181", "from 1 to 180"),
        ("inactivity_timeout", "two", "from 1 to 180"),
        ("inactivity_timeout", "²", "from 1 to 180"),
        ("seed", "-1", "a whole number from 0"),
        ("seed", "9" * 5_000, "a whole number from 0"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(field: str, value: str, allowed: str) -> None:
    with pytest.raises(Refusal, match=rf"^{field}: ") as caught:
        read_manner("heart", {field: value})
    assert allowed in str(caught.value)
