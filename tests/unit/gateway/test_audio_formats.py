"""Every format, encoded in pieces and decoded again by FFmpeg."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from decoded_audio import decoded
from talkahead_client import AudioChunk, Stats
from talkahead_gateway.encoding import AUDIO_FORMATS, RATE_HZ, AsyncEncoder, Encoder

SECONDS = 1.7
TONE_HZ = 440.0
FIRST_S, LATER_S = 0.08, 0.5
"""Lengths of the server's chunks."""
DELAY_S = {"mp3": 0.09, "aac": 0.09}
"""By how much a codec's own frames may make speech longer, of those whose container does not say so."""
RATES = (RATE_HZ, 16_000)
"""Of servers."""
ASKED = [(name, rate_hz) for name, audio_format in AUDIO_FORMATS.items() for rate_hz in audio_format.rates_hz]
KEPT_BACK_S = {"mp3": 0.05, "opus": 0.03, "aac": 0.09, "flac": 0.02, "wav": 0.0, "pcm": 0.0}
"""Of what was sent, how much cannot be decoded before the next chunk at most."""
LOSSLESS = ("flac", "wav", "pcm")


def chunks(audio: npt.NDArray[np.float32], rate_hz: int) -> Iterator[AudioChunk]:
    cuts = [0, *np.arange(round(FIRST_S * rate_hz), len(audio), round(LATER_S * rate_hz)), len(audio)]
    for index, (start, end) in enumerate(itertools.pairwise(cuts)):
        yield AudioChunk(audio[start:end], index, rate_hz, end == len(audio), Stats(*[0] * 12), 0.0)


def tone(rate_hz: int, seconds: float = SECONDS) -> npt.NDArray[np.float32]:
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * TONE_HZ * times)).astype(np.float32)


def encoded(
    name: str, audio: npt.NDArray[np.float32], rate_hz: int = RATE_HZ, asked_hz: int = RATE_HZ
) -> list[bytes]:
    encoder = Encoder(AUDIO_FORMATS[name], asked_hz)
    return [*(encoder.encode(chunk) for chunk in chunks(audio, rate_hz)), encoder.finish()]


@pytest.mark.parametrize("rate_hz", RATES)
@pytest.mark.parametrize(("name", "asked_hz"), ASKED)
def test_what_is_decoded_is_as_long_and_sounds_alike(name: str, asked_hz: int, rate_hz: int) -> None:
    audio, decoded_hz = decoded(name, b"".join(encoded(name, tone(rate_hz), rate_hz, asked_hz)), asked_hz)
    # Opus knows the rate, and is always decoded at 48 kHz.
    assert decoded_hz == (48_000 if name == "opus" else asked_hz)
    delay_s = DELAY_S.get(name, 0.005) * max(1.0, RATE_HZ / asked_hz)
    assert -0.005 <= len(audio) / decoded_hz - SECONDS <= delay_s
    middle = audio[decoded_hz // 2 : decoded_hz]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * decoded_hz / len(middle) == pytest.approx(TONE_HZ, abs=3)
    # LAME takes it down by a twentieth.
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.06)


@pytest.mark.parametrize(
    ("asked_hz", "is_heard"), [(8_000, False), (16_000, False), (24_000, True), (48_000, True)]
)
def test_a_lower_rate_has_no_mirror_of_what_it_cannot_hold(asked_hz: int, is_heard: bool) -> None:
    """A tone of 11 kHz is heard at rates that can hold it, and otherwise not at all."""
    times = np.arange(RATE_HZ) / RATE_HZ
    high = (0.5 * np.sin(2 * np.pi * 11_000 * times)).astype(np.float32)
    audio, _ = decoded("pcm", b"".join(encoded("pcm", high, asked_hz=asked_hz)), asked_hz)
    middle = audio[asked_hz // 4 : -asked_hz // 4]
    loudness = np.sqrt(np.mean(middle**2)) / (0.5 / np.sqrt(2))
    assert loudness > 0.5 if is_heard else loudness < 0.001


@pytest.mark.parametrize("name", LOSSLESS)
def test_nothing_is_lost_but_rounding(name: str) -> None:
    sent = tone(RATE_HZ)
    audio, _ = decoded(name, b"".join(encoded(name, sent)))
    assert len(audio) == len(sent) and np.abs(audio - sent).max() <= 1 / 32_767


@pytest.mark.parametrize("name", LOSSLESS)
def test_what_is_too_loud_is_clipped(name: str) -> None:
    audio, _ = decoded(name, b"".join(encoded(name, 4 * tone(RATE_HZ))))
    assert audio.max() == pytest.approx(1.0, abs=1e-4) and audio.min() == -1.0


@pytest.mark.parametrize("rate_hz", RATES)
@pytest.mark.parametrize("name", ["pcm", "mulaw", "alaw"])
@pytest.mark.parametrize("asked_hz", AUDIO_FORMATS["pcm"].rates_hz)
def test_chunks_join_without_a_seam(name: str, rate_hz: int, asked_hz: int) -> None:
    """Encoded in pieces and at once, it is the same; a resampler that began anew would click."""
    sent = tone(rate_hz)
    encoder = Encoder(AUDIO_FORMATS[name], asked_hz)
    whole = encoder.encode(AudioChunk(sent, 0, rate_hz, True, Stats(*[0] * 12), 0.0)) + encoder.finish()
    assert b"".join(encoded(name, sent, rate_hz, asked_hz)) == whole
    assert len(whole) == pytest.approx(SECONDS * asked_hz * (2 if name == "pcm" else 1), abs=2)


@pytest.mark.parametrize("name", ["mp3", "pcm"])
async def test_another_thread_encodes_the_same(name: str) -> None:
    sent = tone(RATE_HZ)
    encoder = AsyncEncoder(AUDIO_FORMATS[name], RATE_HZ)
    parts = [await encoder.encode(chunk) for chunk in chunks(sent, RATE_HZ)]
    assert [*parts, await encoder.finish()] == encoded(name, sent)


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac"])
def test_filters_are_made_before_there_is_speech(name: str) -> None:
    """PyAV's own ones, by which it cuts frames: they take milliseconds, and the first chunk would wait."""
    encoder = Encoder(AUDIO_FORMATS[name], RATE_HZ)
    threads = num_threads()
    encoder.encode(next(chunks(tone(RATE_HZ), RATE_HZ)))
    assert num_threads() <= threads


def num_threads() -> int:
    """Of this process' threads, also those of libraries."""
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("name", KEPT_BACK_S)
def test_what_has_left_is_nearly_all_that_came(name: str) -> None:
    parts = encoded(name, tone(RATE_HZ))
    sent_s = 0.0
    for chunk, end in zip(chunks(tone(RATE_HZ), RATE_HZ), range(1, len(parts)), strict=True):
        sent_s += chunk.duration_s
        if sent_s > KEPT_BACK_S[name]:
            audio, rate_hz = decoded(name, b"".join(parts[:end]))
            assert sent_s - len(audio) / rate_hz <= KEPT_BACK_S[name] + 1e-9


@pytest.mark.parametrize(("soft_s", "silence"), [(0.013, 529), (0.005, 576 + 529)])
def test_mp3_that_begins_softly_has_less_silence_in_front(soft_s: float, silence: int) -> None:
    sent = tone(RATE_HZ)
    sent[: round(soft_s * RATE_HZ)] *= 0.01
    audio, _ = decoded("mp3", b"".join(encoded("mp3", sent)))
    kept = audio[silence : silence + len(sent)]
    assert len(kept) == len(sent) and np.sqrt(np.mean((kept - sent) ** 2)) < 0.03
    assert np.abs(audio[:silence]).max() < 0.01


def test_wav_says_that_its_length_is_not_known() -> None:
    first, *_ = encoded("wav", tone(RATE_HZ))
    assert first[:4] == b"RIFF" and first[4:8] == b"\xff" * 4
    assert first[36:40] == b"data" and first[40:44] == b"\xff" * 4
    assert len(first) == 44 + 2 * round(FIRST_S * RATE_HZ)


def test_pcm_is_of_16_bits_and_nothing_else() -> None:
    assert len(b"".join(encoded("pcm", tone(RATE_HZ)))) == 2 * round(SECONDS * RATE_HZ)


@pytest.mark.parametrize("name", ["mulaw", "alaw"])
def test_telephones_have_8_bits_and_are_near(name: str) -> None:
    assert AUDIO_FORMATS[name].rate_hz == 8_000
    sent = tone(8_000)
    coded = b"".join(encoded(name, sent, 8_000, 8_000))
    assert len(coded) == len(sent)
    audio, _ = decoded(name, coded, 8_000)
    assert np.sqrt(np.mean((audio - sent) ** 2)) < 0.01
