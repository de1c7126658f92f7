"""Everything that is measured of one utterance, beside the teacher's audio of the same words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from instruments.measures.buzz import buzz
from instruments.measures.frames import SAMPLE_RATE_HZ, Audio
from instruments.measures.mel_cepstrum import mean_distance_db, mel_cepstra, warping
from instruments.measures.phrases import check_phrases
from instruments.measures.pitch import fundamentals_hz, pitch_error
from instruments.measures.silence import onset_ms
from instruments.recogniser import Recogniser


@dataclass(frozen=True)
class Appraisal:
    """One utterance. What cannot be told (no voiced frame, no audible sample) is None."""

    duration_s: float
    edits: int
    """Word edits between `heard` and the text, out of `words`."""
    words: int
    heard: str
    skipped: tuple[str, ...]
    repeated: tuple[str, ...]
    """Phrases: two successive words or more."""
    onset_ms: float | None
    flatness_db: float | None
    high_band_db: float | None
    mel_cepstral_db: float
    """This and the pitch: along the warping to the teacher's audio."""
    pitch_rmse_cents: float | None
    voicing_error_percent: float

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        lists = {name: tuple(fields[name]) for name in ("skipped", "repeated")}
        return cls(**{**fields, **lists})


def appraise(recogniser: Recogniser, asked: str, audio: Audio, teacher: Audio) -> Appraisal:
    """Measures `audio`, which should speak the normalised words `asked` as `teacher` does."""
    errors = recogniser.errors(asked, audio)
    phrases = check_phrases(recogniser, asked, audio, errors.heard)
    cepstra, wanted = mel_cepstra(audio), mel_cepstra(teacher)
    pitch = fundamentals_hz(audio)
    here, there = warping(cepstra, wanted)
    pitch_differs = pitch_error(pitch[here], fundamentals_hz(teacher)[there])
    sound = buzz(audio, pitch)
    return Appraisal(
        duration_s=len(audio) / SAMPLE_RATE_HZ,
        edits=errors.edits,
        words=errors.words,
        heard=errors.heard,
        skipped=phrases.skipped,
        repeated=phrases.repeated,
        onset_ms=onset_ms(audio),
        flatness_db=sound.flatness_db,
        high_band_db=sound.high_band_db,
        mel_cepstral_db=mean_distance_db(cepstra[here], wanted[there]),
        pitch_rmse_cents=pitch_differs.rmse_cents,
        voicing_error_percent=pitch_differs.voicing_percent,
    )
