"""Everything measured of a codec or a server: findings, verdicts, and the raw values that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Self

from instruments import report
from training import findings, verdicts
from training.comparison import CODEC, SERVER, TEACHER, Row
from training.passage import Passage
from training.verdicts import Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class CopyEvaluation:
    """The codec's copies beside the teacher."""

    KIND: ClassVar = "copies"

    rows: tuple[Row, ...]
    systems: tuple[findings.SystemFinding, ...]
    verdicts: tuple[Verdict, ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        systems = tuple(findings.system_findings(rows))
        judged = verdicts.judge_copies(over_all(systems)[CODEC])
        return cls(tuple(findings.without_speakers(rows)), systems, tuple(judged))

    def tables(self) -> Iterator[str]:
        """Everything but the raw values, as text."""
        return tables(self.systems, self.verdicts)


@dataclass(frozen=True)
class Evaluation:
    """The server, the codec's copies and the teacher."""

    KIND: ClassVar = "voice"

    rows: tuple[Row, ...]
    passages: tuple[Passage, ...]
    sharpness_db: Mapping[str, Sequence[float]]
    """By kind of place; see `measures.joins`."""
    systems: tuple[findings.SystemFinding, ...]
    joins: tuple[findings.JoinFinding, ...]
    pauses: tuple[findings.PauseFinding, ...]
    verdicts: tuple[Verdict, ...]

    @classmethod
    def of(
        cls, rows: Sequence[Row], passages: Sequence[Passage], sharpness_db: Mapping[str, Sequence[float]]
    ) -> Self:
        systems, joins = tuple(findings.system_findings(rows)), tuple(findings.join_findings(sharpness_db))
        pauses = tuple(findings.pause_findings(chain.from_iterable(passage.pauses for passage in passages)))
        overall = over_all(systems)
        judged = (
            *verdicts.judge_copies(overall[CODEC]),
            *verdicts.judge_server(overall[TEACHER], overall[SERVER]),
            *verdicts.judge_joins(joins[:-1], joins[-1]),
            *verdicts.judge_pauses(pauses),
        )
        kept = tuple(findings.without_speakers(rows))
        return cls(kept, tuple(passages), sharpness_db, systems, joins, pauses, judged)

    def tables(self) -> Iterator[str]:
        """Everything but the raw values, as text."""
        return tables(self.systems, self.joins, self.pauses, self.verdicts)


def over_all(systems: Sequence[findings.SystemFinding]) -> dict[str, findings.SystemFinding]:
    """Each system's finding over all sentences."""
    return {one.system: one for one in systems if one.group == findings.EVERYTHING}


def tables(*groups: Sequence[DataclassInstance]) -> Iterator[str]:
    """Each group of dataclasses that is not empty, in aligned columns."""
    return (report.table([_cells(row) for row in group]) for group in groups if group)


def _cells(row: DataclassInstance) -> dict[str, str]:
    return {field.name.replace("_", " "): _cell(getattr(row, field.name)) for field in fields(row)}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
