from __future__ import annotations

import numpy as np
import pytest
from talkahead_client import AudioChunk, Listener, Stats
from talkahead_client.figures import AUDIBLE, first_audible
from talkahead_client.pcm import to_s16le
from talkahead_client.protocol import STATS_FIELDS

STATS = Stats(*range(len(STATS_FIELDS)))


def _chunk(index: int, elapsed_s: float, audio: np.ndarray) -> AudioChunk:  # type: ignore[type-arg]
    return AudioChunk(audio.astype(np.float32), index, 1000, False, STATS, elapsed_s)


def test_a_listener_plays_chunks_one_after_the_other() -> None:
    listener = Listener()
    quiet, loud = np.full(100, 0.9 * AUDIBLE), np.full(200, 0.5)
    # played from 50 to 150 ms; 160 to 260 ms after 10 dry ms; 260 to 460 ms
    for chunk in (_chunk(0, 0.05, quiet), _chunk(1, 0.16, quiet), _chunk(2, 0.2, loud)):
        listener.hear(chunk)
    figures = listener.figures()
    assert figures.first_chunk_ms == pytest.approx(50)
    assert figures.first_audible_ms == pytest.approx(260)
    assert figures.total_ms == pytest.approx(200)
    assert figures.audio_s == pytest.approx(0.4)
    assert figures.real_time_factor == pytest.approx(0.5)
    assert (figures.chunks, figures.dry_chunks) == (3, 1)
    assert figures.dry_ms == pytest.approx(10)
    assert listener.played_out_s == pytest.approx(0.46)


def test_the_first_audible_sample_inside_the_first_chunk() -> None:
    listener = Listener()
    audio = np.zeros(100)
    audio[40] = -AUDIBLE
    listener.hear(_chunk(0, 0.01, audio))
    assert first_audible(audio.astype(np.float32)) == 40
    assert listener.figures().first_audible_ms == pytest.approx(50)


def test_silence_is_never_audible() -> None:
    listener = Listener()
    listener.hear(_chunk(0, 0.01, np.zeros(10)))
    assert listener.figures().first_audible_ms is None
    assert "first audible sample none" in str(listener.figures())


def test_samples_become_16_bits() -> None:
    samples = np.frombuffer(to_s16le(np.array([0, 1, -1, 2, -2, 0.5], np.float32)), "<i2")
    assert samples.tolist() == [0, 32767, -32767, 32767, -32767, 16384]


def test_stats_know_their_length() -> None:
    with pytest.raises(ValueError, match="STATS has 2 values, expected 12"):
        Stats.from_wire([1, 2])
