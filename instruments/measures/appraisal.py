"""Everything that is measured of one utterance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from instruments.measures.ear import Ear
from instruments.measures.intelligibility import short_time_intelligibility
from instruments.measures.naturalness import OpinionScorer
from instruments.measures.phrases import check_phrases
from instruments.measures.silence import onset_ms
from instruments.measures.speaker import SpeakerEncoder
from instruments.measures.word_errors import WordErrors
from instruments.recording import Recording


@dataclass(frozen=True)
class Appraisal:
    """One utterance.

    Args:
        edits: between the words heard and those of the text, of which there are `words`.
        surprise: nats by which the recogniser would not have expected the text.
        skipped, repeated: phrases: two successive words or more.
        onset_ms: silence before the speech; None without an audible sample.
        p808: DNSMOS' opinion score.
        stoi: of a copy that is aligned with its original; else None.
        speaker: Resemblyzer's embedding.
    """

    duration_s: float
    edits: int
    words: int
    heard: str
    surprise: float
    skipped: tuple[str, ...]
    repeated: tuple[str, ...]
    onset_ms: float | None
    p808: float
    stoi: float | None
    speaker: tuple[float, ...]

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        lists = {name: tuple(fields[name]) for name in ("skipped", "repeated", "speaker")}
        return cls(**{**fields, **lists})


class Appraiser:
    """The instruments of one process."""

    def __init__(self) -> None:
        self._ear = Ear()
        self._scorer = OpinionScorer()
        self._speakers = SpeakerEncoder()

    def appraise(
        self, written: str, asked: str, recording: Recording, aligned_with: Recording | None = None
    ) -> Appraisal:
        """Measures a recording, which should say the text that was asked for: as written, and its words."""
        errors = WordErrors.between(asked, self._ear.hear(recording))
        phrases = check_phrases(asked, errors.heard)
        return Appraisal(
            duration_s=recording.seconds,
            edits=errors.edits,
            words=errors.words,
            heard=errors.heard,
            surprise=self._ear.surprise(written, recording),
            skipped=phrases.skipped,
            repeated=phrases.repeated,
            onset_ms=onset_ms(recording),
            p808=self._scorer.p808(recording),
            stoi=short_time_intelligibility(aligned_with, recording) if aligned_with else None,
            speaker=tuple(self._speakers.embed(recording).tolist()),
        )
