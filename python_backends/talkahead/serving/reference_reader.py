"""Recordings to speak like: checked, trimmed as the corpus is, and named by their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from talkahead.audio.speech_edges import speech_span, with_corpus_edges
from talkahead.errors import BadRequest
from talkahead.families.contracts import Frontend, Samples
from talkahead.speech_format import SpeechFormat

AUDIO, TEXT = "REFERENCE_AUDIO", "REFERENCE_TEXT"
MIN_SPEECH_S = 1.0
MAX_RECORDING_S = 30.0
"""With its silent edges; how much speech is taken follows from the talker's positions."""
MAX_TEXT_CHARACTERS = 500
_FULL_SCALE = 0.999
_MAX_CLIPPED_SHARE = 0.01


@dataclass(frozen=True)
class Reference:
    """A voice by example.

    Args:
        audio: whole frames at the codec's rate.
        said: its transcript.
        key: of audio, transcript and codec together, 63 bits and never 0.
    """

    audio: Samples
    said: str
    key: int


class ReferenceReader:
    """Turns REFERENCE_AUDIO and REFERENCE_TEXT into a `Reference`.

    Args:
        text: reads the transcript.
        version: of the codec whose codes the encoder keeps under the key.
    """

    def __init__(self, speech: SpeechFormat, text: Frontend, version: str) -> None:
        self._format = speech
        self._text = text
        self._version = version

    def read(self, audio: Samples | None, text: str | None) -> Reference:
        """Raises BadRequest for what cannot be spoken like."""
        if not self._format.reference_positions:
            raise BadRequest(AUDIO, "a recording", "none: this server has voices of its own alone")
        if audio is None:
            raise BadRequest(AUDIO, None, f"a recording of {TEXT}")
        if text is None:
            raise BadRequest(TEXT, None, f"what is said in {AUDIO}")
        speech = self._speech(audio)
        if not text.strip() or len(text) > MAX_TEXT_CHARACTERS:
            raise BadRequest(TEXT, text, f"1 to {MAX_TEXT_CHARACTERS} characters")
        self._check_room(len(speech) // self._format.hop, self._text.units_of(text))
        return Reference(speech, text, self._key(speech, text))

    def _speech(self, audio: Samples) -> Samples:
        rate = self._format.sample_rate_hz
        if len(audio) > MAX_RECORDING_S * rate:
            raise BadRequest(
                AUDIO, f"{len(audio) / rate:.1f} s", f"at most {MAX_RECORDING_S:g} s at {rate:,} Hz"
            )
        _check_samples(audio)
        span = speech_span(audio, rate)
        if (seconds := (span[1] - span[0]) / rate) < MIN_SPEECH_S:
            raise BadRequest(
                AUDIO, f"{seconds:.1f} s of speech", f"at least {MIN_SPEECH_S:g} s of speech at {rate:,} Hz"
            )
        trimmed = with_corpus_edges(audio, span, rate)
        return trimmed[: len(trimmed) // self._format.hop * self._format.hop]

    def _check_room(self, frames: int, units: int) -> None:
        """A segment of any length must fit after the reference: it would be cut otherwise."""
        steps, room = self._format.steps_per_frame, self._format.reference_positions
        if frames * steps + units > room:
            rate = self._format.frames_per_s
            raise BadRequest(
                AUDIO,
                f"{frames / rate:.1f} s of speech, and {units} units in {TEXT}",
                f"at most {room} positions together: {rate * steps:g} for a second of speech, 1 for a unit",
            )

    def _key(self, speech: Samples, text: str) -> int:
        digest = hashlib.sha256()
        for part in (self._version.encode(), text.encode(), speech.tobytes()):
            digest.update(len(part).to_bytes(8, "little") + part)
        return int.from_bytes(digest.digest()[:8], "little") >> 1 or 1


def _check_samples(audio: Samples) -> None:
    if not np.isfinite(audio).all():
        raise BadRequest(AUDIO, float(audio[~np.isfinite(audio)][0]), "finite samples from -1 to 1")
    levels = np.abs(audio)
    if (peak := float(levels.max(initial=0.0))) > 1.0:
        raise BadRequest(AUDIO, peak, "samples from -1 to 1 (of 16 bits: divide by 32,768)")
    clipped = np.count_nonzero(levels >= _FULL_SCALE) / max(len(levels), 1)
    if clipped > _MAX_CLIPPED_SHARE:
        raise BadRequest(
            AUDIO,
            f"{clipped:.0%} of its samples at full scale",
            f"a recording that is not clipped (at most {_MAX_CLIPPED_SHARE:.0%} there)",
        )
