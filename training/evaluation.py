"""Everything measured of one server: findings, verdicts, and the raw values that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Self

from instruments import report
from training import findings, verdicts
from training.comparison import Row
from training.passage import Passage
from training.references import ReferenceFinding, ReferenceRow, judge_references, reference_findings
from training.verdicts import Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Evaluation:
    """Raw values and what they come to."""

    KIND: ClassVar = "voice"

    rows: tuple[Row, ...]
    passages: tuple[Passage, ...]
    sharpness_db: Mapping[str, Sequence[float]]
    """By kind of place; see `measures.joins`."""
    words: tuple[findings.WordFinding, ...]
    sounds: tuple[findings.SoundFinding, ...]
    speakers: tuple[findings.SpeakerFinding, ...]
    joins: tuple[findings.JoinFinding, ...]
    pauses: tuple[findings.PauseFinding, ...]
    verdicts: tuple[Verdict, ...]

    @classmethod
    def of(
        cls, rows: Sequence[Row], passages: Sequence[Passage], sharpness_db: Mapping[str, Sequence[float]]
    ) -> Self:
        words, sounds = tuple(findings.word_findings(rows)), tuple(findings.sound_findings(rows))
        speakers, joins = tuple(findings.speaker_findings(rows)), tuple(findings.join_findings(sharpness_db))
        pauses = tuple(
            findings.pause_findings(
                chain.from_iterable(passage.server for passage in passages),
                chain.from_iterable(passage.flite for passage in passages),
            )
        )
        judged = (
            *verdicts.judge_words(words),
            *verdicts.judge_buzz(sounds),
            *verdicts.judge_onsets(speakers[0], speakers[-1]),
            *verdicts.judge_joins(joins[:-1], joins[-1]),
            *verdicts.judge_pauses(pauses),
        )
        return cls(tuple(rows), tuple(passages), sharpness_db, words, sounds, speakers, joins, pauses, judged)

    def tables(self) -> Iterator[str]:
        """Everything but the raw values, as text."""
        return tables(self.words, self.sounds, self.speakers, self.joins, self.pauses, self.verdicts)


@dataclass(frozen=True)
class ReferenceEvaluation:
    """How often the server spoke like the recordings that it was given."""

    KIND: ClassVar = "references"

    rows: tuple[ReferenceRow, ...]
    findings: tuple[ReferenceFinding, ...]
    verdict: Verdict

    @classmethod
    def of(cls, rows: Sequence[ReferenceRow]) -> Self:
        found = tuple(reference_findings(rows))
        return cls(tuple(rows), found, judge_references(found[0]))

    def tables(self) -> Iterator[str]:
        """Findings and verdict as text."""
        return tables(self.findings, (self.verdict,))


def tables(*groups: Sequence[DataclassInstance]) -> Iterator[str]:
    """Each group of dataclasses that is not empty, in aligned columns."""
    return (report.table([_cells(asdict(row)) for row in group]) for group in groups if group)


def _cells(values: Mapping[str, object]) -> dict[str, str]:
    return {name.replace("_", " "): _cell(value) for name, value in values.items()}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
