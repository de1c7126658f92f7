"""The same voice is near itself whatever it says, at any rate; other voices are further off."""

from __future__ import annotations

import numpy as np
import pytest
from taught import CLEAR, NUMBERS, VOICES, said

from instruments.measures.speaker import SpeakerEncoder, mean_speaker
from instruments.recording import Recording


@pytest.fixture(scope="module")
def encoder() -> SpeakerEncoder:
    return SpeakerEncoder()


def test_speakers_are_told_apart(encoder: SpeakerEncoder) -> None:
    one, other = (
        np.array([encoder.embed(said(text, voice)) for voice in VOICES]) for text in (CLEAR, NUMBERS)
    )
    cosines = one @ other.T
    own = np.diag(cosines)
    assert own.min() > 0.8
    assert (cosines - np.diag(own)).max() < 0.75


def test_rate_and_quietness_do_not_matter(encoder: SpeakerEncoder) -> None:
    recording = said(CLEAR)
    embedding = encoder.embed(recording)
    assert np.linalg.norm(embedding) == pytest.approx(1)
    quiet, quieter = (Recording(gain * recording.samples, recording.rate_hz) for gain in (0.1, 0.02))
    assert encoder.embed(quiet) @ encoder.embed(quieter) > 0.99
    assert embedding @ encoder.embed(Recording(recording.at(48_000), 48_000)) > 0.98


def test_embeddings_are_those_of_the_published_code(encoder: SpeakerEncoder) -> None:
    """Of ten harmonics: resemblyzer 0.1.4 with librosa 0.11.0, without its detector of voices."""
    times = np.arange(3 * 16_000) / 16_000
    tones = sum(np.sin(2 * np.pi * 120 * order * times) / order for order in range(1, 11))
    embedding = encoder.embed(Recording((0.2 * tones).astype(np.float32), 16_000))
    assert embedding[[77, 224, 248, 254]] == pytest.approx([0.28855, 0.25269, 0.20129, 0.18789], abs=1e-4)


def test_the_mean_of_several_is_a_unit_vector() -> None:
    assert mean_speaker([np.array([1.0, 0.0]), np.array([0.0, 1.0])]) == pytest.approx([0.5**0.5] * 2)


def test_nothing_has_no_speaker(encoder: SpeakerEncoder) -> None:
    with pytest.raises(ValueError, match="without samples"):
        encoder.embed(Recording(np.zeros(0, dtype=np.float32), 16_000))
