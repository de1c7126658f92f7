"""What rows of measurements come to: each system by category and voice, joins, pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt

from instruments.measures.appraisal import Appraisal
from instruments.measures.duration import LONGEST, SHORTEST
from instruments.measures.pauses import Pause
from instruments.measures.speaker import mean_speaker
from instruments.percentages import Difference, percent
from training.comparison import TEACHER, Row

ONSET_MS = 30.0
EVERYTHING = "all"

Similarities = Mapping[str, npt.NDArray[np.float64]]
"""Of each system, sentence by sentence: cosine of its speaker to the teacher's in that voice."""


@dataclass(frozen=True)
class SystemFinding:
    """One system over a group of sentences: all, a category, or a voice's.

    Word errors, durations that are right, and sentences with phrases that were skipped or repeated are in
    percent, the recogniser's surprise in hundredths of a nat a word; speech begins within 30 ms in percent of
    the sentences. What is more (`more_...`) is the system's less the teacher's, sentence by sentence, with a
    95 % interval.
    """

    group: str
    system: str
    sentences: int
    word_errors: float
    more_word_errors: Difference
    surprise: float
    more_surprise: Difference
    p808: float
    more_p808: Difference
    similarity: float
    more_similarity: Difference
    stoi: float | None
    durations_right: float
    phrases_wrong: float
    onset_median_ms: float | None
    onsets_within_30_ms: float


@dataclass(frozen=True)
class JoinFinding:
    """Sharpness of the waveform where pieces meet, in decibels over its surroundings."""

    place: str
    count: int
    median_db: float
    p95_db: float
    p99_db: float


@dataclass(frozen=True)
class PauseFinding:
    """The median of the silences at a mark of punctuation, in seconds."""

    mark: str
    count: int
    median_s: float


def system_findings(rows: Sequence[Row]) -> Iterator[SystemFinding]:
    """Every system over all sentences, then by category and by voice."""
    similarities = speaker_similarities(rows)
    groups = {EVERYTHING: range(len(rows))} | _groups(rows, lambda row: row.sentence.category)
    if len(voices := _groups(rows, lambda row: row.sentence.voice)) > 1:
        groups |= voices
    for group, places in groups.items():
        chosen = [rows[place] for place in places]
        for system in chosen[0].systems:
            similar = {name: values[places] for name, values in similarities.items()}
            yield _finding(group, system, chosen, similar)


def without_speakers(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows less the embeddings, which are long and say nothing by themselves."""
    for row in rows:
        yield replace(row, systems={name: replace(one, speaker=()) for name, one in row.systems.items()})


def speaker_similarities(rows: Sequence[Row]) -> Similarities:
    """To the mean of the teacher's utterances in the sentence's voice."""
    teacher = {
        voice: mean_speaker([np.array(rows[place].systems[TEACHER].speaker) for place in places])
        for voice, places in _groups(rows, lambda row: row.sentence.voice).items()
    }
    return {
        system: np.array([teacher[row.sentence.voice] @ row.systems[system].speaker for row in rows])
        for system in rows[0].systems
    }


def _groups(rows: Sequence[Row], name: Callable[[Row], str]) -> dict[str, Sequence[int]]:
    """Places of the rows by name, in order of their first."""
    groups: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(name(row), []).append(place)
    return dict(groups)


def _finding(group: str, system: str, rows: Sequence[Row], similarities: Similarities) -> SystemFinding:
    own = [row.systems[system] for row in rows]
    pairs = [(row.systems[system], row.systems[TEACHER]) for row in rows]
    onsets = [one.onset_ms for one in own if one.onset_ms is not None]
    kept = [one.stoi for one in own if one.stoi is not None]

    def more(measure: Callable[[Appraisal], float]) -> Difference:
        return Difference.of_means([measure(one) - measure(other) for one, other in pairs])

    return SystemFinding(
        group,
        system,
        sentences=len(rows),
        word_errors=100 * sum(one.edits for one in own) / sum(one.words for one in own),
        more_word_errors=Difference.of_percents(
            [one.edits - other.edits for one, other in pairs], [one.words for one in own]
        ),
        surprise=100 * sum(one.surprise for one in own) / sum(one.words for one in own),
        more_surprise=Difference.of_percents(
            [one.surprise - other.surprise for one, other in pairs], [one.words for one in own]
        ),
        p808=fmean(one.p808 for one in own),
        more_p808=more(lambda one: one.p808),
        similarity=float(similarities[system].mean()),
        more_similarity=Difference.of_means(similarities[system] - similarities[TEACHER]),
        stoi=fmean(kept) if kept else None,
        durations_right=percent(SHORTEST <= row.duration_ratio(system) <= LONGEST for row in rows),
        phrases_wrong=percent(not row.keeps_every_phrase(system) for row in rows),
        onset_median_ms=float(np.median(onsets)) if onsets else None,
        onsets_within_30_ms=percent(one.onset_ms is not None and one.onset_ms <= ONSET_MS for one in own),
    )


def join_findings(sharpness: Mapping[str, Sequence[float]]) -> Iterator[JoinFinding]:
    """One for each kind of place that has any."""
    for place, values in sharpness.items():
        if values:
            median, p95, p99 = (float(value) for value in np.percentile(values, [50, 95, 99]))
            yield JoinFinding(place, len(values), median, p95, p99)


def pause_findings(pauses: Iterable[Pause]) -> Iterator[PauseFinding]:
    """One for each mark."""
    lengths: dict[str, list[float]] = {}
    for pause in pauses:
        lengths.setdefault(pause.mark, []).append(pause.seconds)
    for mark, seconds in lengths.items():
        yield PauseFinding(mark, len(seconds), float(np.median(seconds)))
