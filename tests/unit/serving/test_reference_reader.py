"""What can be spoken like, what cannot, and that no two voices share a name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from talkahead.errors import BadRequest
from talkahead.families.phonemic.frontend import PhonemeFrontend
from talkahead.serving.reference_reader import Reference, ReferenceReader
from talkahead.speech_format import SpeechFormat
from tiny_voice import HOP, LISTENING, RATE_HZ, SPEECH

SAID = "The juice of lemons makes fine punch."
FRONTEND = PhonemeFrontend()
FRAMES_PER_S = LISTENING.frames_per_s
EDGES_S = 0.01 + 0.1
"""Kept before and after the speech."""
ROOM, UNITS = LISTENING.reference_positions, FRONTEND.units_of(SAID)
TOO_LONG_S = (ROOM + 1 - UNITS) / FRAMES_PER_S
"""By one frame."""


def recording(seconds: float, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ))
    return (0.1 * noise).clip(-0.9, 0.9).astype(np.float32)


def read(
    audio: np.ndarray | None, text: str | None = SAID, version: str = "1", speech: SpeechFormat = LISTENING
) -> Reference:
    return ReferenceReader(speech, FRONTEND, version).read(audio, text)


def test_a_reference_is_trimmed_to_whole_frames() -> None:
    silence = np.zeros(RATE_HZ, np.float32)
    reference = read(np.concatenate([silence, recording(2.0), silence]))
    assert len(reference.audio) == int((2.0 + EDGES_S) * FRAMES_PER_S) * HOP
    np.testing.assert_array_equal(reference.audio, read(recording(2.0)).audio)
    assert reference.said == SAID


def test_every_sentence_of_the_transcript_is_counted() -> None:
    assert FRONTEND.units_of(f"{SAID} {SAID}") == 2 * FRONTEND.units_of(SAID)


@pytest.mark.parametrize(
    "speech",
    [replace(LISTENING, max_positions=LISTENING.segment_positions), SPEECH],
    ids=["no room", "no encoder"],
)
def test_where_all_room_is_a_segment_s_or_nothing_encodes_nothing_is_spoken_like(
    speech: SpeechFormat,
) -> None:
    with pytest.raises(BadRequest, match="none: this server has voices of its own alone"):
        read(recording(2.0), speech=speech)


def test_a_voice_is_its_audio_its_words_and_its_codec() -> None:
    """A cache keyed by the transcript alone speaks with the voice of whoever came first."""
    key = read(recording(2.0)).key
    assert key == read(recording(2.0)).key and 0 < key < 2**63
    others = [
        read(recording(2.0, seed=1)),
        read(recording(2.0), "Open the crate."),
        read(recording(2.0), version="2"),
    ]
    assert len({key, *(other.key for other in others)}) == 4


HOT = recording(2.0)
HOT[::20] = 1.0
SHOUTED = 3_000 * recording(2.0)
BROKEN = recording(2.0)
BROKEN[77] = np.nan


@pytest.mark.parametrize(
    ("audio", "text", "sentence"),
    [
        (None, SAID, "REFERENCE_AUDIO: None is not accepted; allowed: a recording of REFERENCE_TEXT"),
        (
            recording(2.0),
            None,
            "REFERENCE_TEXT: None is not accepted; allowed: what is said in REFERENCE_AUDIO",
        ),
        (BROKEN, SAID, "REFERENCE_AUDIO: nan is not accepted; allowed: finite samples from -1 to 1"),
        (SHOUTED, SAID, "samples from -1 to 1 (of 16 bits: divide by 32,768)"),
        (HOT, SAID, "'5% of its samples at full scale' is not accepted; allowed: a recording that is not"),
        (
            recording(0.9),
            SAID,
            f"'0.9 s of speech' is not accepted; allowed: at least 1 s of speech at {RATE_HZ:,} Hz",
        ),
        (np.zeros(4 * RATE_HZ, np.float32), SAID, "'0.0 s of speech' is not accepted; allowed: at least 1 s"),
        (np.zeros(0, np.float32), SAID, "'0.0 s of speech' is not accepted; allowed: at least 1 s"),
        (
            recording(TOO_LONG_S - EDGES_S + 0.005),
            SAID,
            f"{TOO_LONG_S:.1f} s of speech, and {UNITS} units in REFERENCE_TEXT",
        ),
        (
            recording(TOO_LONG_S - EDGES_S + 0.005),
            SAID,
            f"at most {ROOM} positions together: {FRAMES_PER_S:g} for a second of speech, 1 for a unit",
        ),
        (recording(31.0), SAID, f"'31.0 s' is not accepted; allowed: at most 30 s at {RATE_HZ:,} Hz"),
        (recording(2.0), " ", "REFERENCE_TEXT: ' ' is not accepted; allowed: 1 to 500 characters"),
        (recording(2.0), "lemon " * 84, "REFERENCE_TEXT: 'lemon lemon"),
        (recording(2.0), "lemon " * 84, "allowed: 1 to 500 characters"),
        (recording(2.0), "\u4f60\u597d", "REFERENCE_TEXT: "),
    ],
)
def test_what_cannot_be_spoken_like(audio: np.ndarray | None, text: str | None, sentence: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read(audio, text)
    assert sentence in str(refusal.value)
