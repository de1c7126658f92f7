"""What rows of measurements come to: word errors by category, sound by voice, joins, pauses, and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from instruments.measures.appraisal import Appraisal
from instruments.measures.duration import LONGEST, SHORTEST
from instruments.measures.pauses import Pause
from instruments.percentages import bootstrap_interval, percent
from training.comparison import Row

ONSET_MS = 30.0
EVERYTHING = "all"

Pick = Callable[[Row], Appraisal]
SPEAKERS: dict[str, Pick] = {
    "teacher": lambda row: row.teacher,
    "codec": lambda row: row.codec,
    "server": lambda row: row.talker,
}


@dataclass(frozen=True)
class WordFinding:
    """Word errors in percent, the server's minus the teacher's in points with a 95 % interval, and in percent
    of the sentences: durations that are right, phrases skipped or repeated."""

    category: str
    sentences: int
    words: int
    teacher: float
    codec: float
    server: float
    difference: float
    low: float
    high: float
    durations_right: float
    phrases_wrong: float


@dataclass(frozen=True)
class SoundFinding:
    """Means over a voice's sentences of one measure. Distances are to the teacher: 0 for itself."""

    voice: str
    measure: str
    teacher: float
    codec: float
    server: float


@dataclass(frozen=True)
class SpeakerFinding:
    """One speaker over all sentences: onsets, and phrases skipped or repeated."""

    speaker: str
    onset_median_ms: float
    onset_p95_ms: float
    onsets_within_30_ms: float
    """In percent, as is what follows."""
    phrases_skipped: float
    phrases_repeated: float


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
    """Medians of the silences at a mark of punctuation, in seconds."""

    mark: str
    count: int
    server_s: float
    flite_s: float


def word_findings(rows: Sequence[Row]) -> Iterator[WordFinding]:
    """Over all, then by category."""
    yield _words(EVERYTHING, rows)
    for category in dict.fromkeys(row.sentence.category for row in rows):
        yield _words(category, [row for row in rows if row.sentence.category == category])


def _words(category: str, rows: Sequence[Row]) -> WordFinding:
    teacher, codec, server = (_word_errors(rows, pick) for pick in SPEAKERS.values())
    low, high = bootstrap_interval(
        [row.talker.edits - row.teacher.edits for row in rows], [row.talker.words for row in rows]
    )
    return WordFinding(
        category,
        sentences=len(rows),
        words=sum(row.talker.words for row in rows),
        teacher=teacher,
        codec=codec,
        server=server,
        difference=server - teacher,
        low=low,
        high=high,
        durations_right=percent(SHORTEST <= row.duration_ratio <= LONGEST for row in rows),
        phrases_wrong=percent(not row.keeps_every_phrase for row in rows),
    )


def _word_errors(rows: Sequence[Row], pick: Pick) -> float:
    return 100 * sum(pick(row).edits for row in rows) / sum(pick(row).words for row in rows)


_SOUND: dict[str, Callable[[Appraisal], float | None]] = {
    "mel-cepstral distance, dB": lambda heard: heard.mel_cepstral_db,
    "F0 error, cents": lambda heard: heard.pitch_rmse_cents,
    "voicing error, %": lambda heard: heard.voicing_error_percent,
    "spectral flatness, dB": lambda heard: heard.flatness_db,
    "energy above 4 kHz, dB": lambda heard: heard.high_band_db,
}


def sound_findings(rows: Sequence[Row]) -> Iterator[SoundFinding]:
    """Every measure for each voice."""
    for voice in dict.fromkeys(row.sentence.voice for row in rows):
        for name, measure in _SOUND.items():
            means = [
                _mean(measure(pick(row)) for row in rows if row.sentence.voice == voice)
                for pick in SPEAKERS.values()
            ]
            yield SoundFinding(voice, name, *means)


def _mean(values: Iterable[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def speaker_findings(rows: Sequence[Row]) -> Iterator[SpeakerFinding]:
    for speaker, pick in SPEAKERS.items():
        heard = [pick(row) for row in rows]
        onsets = [one.onset_ms for one in heard if one.onset_ms is not None]
        yield SpeakerFinding(
            speaker,
            onset_median_ms=float(np.median(onsets)),
            onset_p95_ms=float(np.percentile(onsets, 95)),
            onsets_within_30_ms=percent(onset <= ONSET_MS for onset in onsets),
            phrases_skipped=percent(bool(one.skipped) for one in heard),
            phrases_repeated=percent(bool(one.repeated) for one in heard),
        )


def join_findings(sharpness: Mapping[str, Sequence[float]]) -> Iterator[JoinFinding]:
    """One for each kind of place that has any."""
    for place, values in sharpness.items():
        if values:
            median, p95, p99 = (float(value) for value in np.percentile(values, [50, 95, 99]))
            yield JoinFinding(place, len(values), median, p95, p99)


def pause_findings(server: Iterable[Pause], flite: Iterable[Pause]) -> Iterator[PauseFinding]:
    """One for each mark that the server's and flite's speech both have."""
    served, taught = _by_mark(server), _by_mark(flite)
    for mark in served.keys() & taught.keys():
        yield PauseFinding(
            mark, len(served[mark]), float(np.median(served[mark])), float(np.median(taught[mark]))
        )


def _by_mark(pauses: Iterable[Pause]) -> dict[str, list[float]]:
    lengths: dict[str, list[float]] = {}
    for pause in pauses:
        lengths.setdefault(pause.mark, []).append(pause.seconds)
    return lengths
