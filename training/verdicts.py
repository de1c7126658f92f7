"""Limits that a voice must keep, and whether it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from talkahead.audio.speech_edges import AFTER_S, BEFORE_S
from talkahead.text.frontend import PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S

from instruments.measures.pauses import PARAGRAPH
from training.findings import JoinFinding, PauseFinding, SystemFinding

_COPY_WORD_POINTS, _COPY_P808 = 1.5, 0.15
_WORD_POINTS, _P808, _SIMILARITY = 2.5, 0.25, 0.85
_DURATIONS_PERCENT, _PHRASES_PERCENT = 99.0, 0.5
_ONSET_MS, _ONSET_POINTS = 30.0, 5.0
_CLICK_DB = 1.0
_EDGES_S = BEFORE_S + AFTER_S
"""Silence that the corpus keeps around each utterance; pauses come on top."""
_PAUSES_S = {mark: SENTENCE_PAUSE_S + _EDGES_S for mark in ".?!"} | {PARAGRAPH: PARAGRAPH_PAUSE_S + _EDGES_S}
_PAUSE_OFF_S = 0.15


@dataclass(frozen=True)
class Verdict:
    """A limit and whether it was kept."""

    what: str
    measured: float
    limit: str
    kept: bool


def at_most(what: str, measured: float, limit: float) -> Verdict:
    return Verdict(what, measured, f"<= {limit:g}", measured <= limit)


def at_least(what: str, measured: float, limit: float) -> Verdict:
    return Verdict(what, measured, f">= {limit:g}", measured >= limit)


def judge_copies(codec: SystemFinding) -> Iterator[Verdict]:
    """Over all sentences."""
    points, under = codec.more_word_errors.value, -codec.more_p808.value
    yield at_most("codec: word errors over the teacher's, points", points, _COPY_WORD_POINTS)
    yield at_most("codec: DNSMOS p808 under the teacher's", under, _COPY_P808)


def judge_server(teacher: SystemFinding, server: SystemFinding) -> Iterator[Verdict]:
    """Over all sentences."""
    points, under = server.more_word_errors.value, -server.more_p808.value
    yield at_most("word errors over the teacher's, points", points, _WORD_POINTS)
    yield at_most("DNSMOS p808 under the teacher's", under, _P808)
    yield at_least("similarity to the teacher's speaker", server.similarity, _SIMILARITY)
    yield at_least("durations 0.8 to 1.25 of the teacher's, %", server.durations_right, _DURATIONS_PERCENT)
    yield at_most("phrases skipped or repeated, % of sentences", server.phrases_wrong, _PHRASES_PERCENT)
    if server.onset_median_ms is not None:
        yield at_most("speech begins, ms, median", server.onset_median_ms, _ONSET_MS)
    fewer = teacher.onsets_within_30_ms - server.onsets_within_30_ms
    yield at_most("speech begins within 30 ms, points under the teacher's", fewer, _ONSET_POINTS)


def judge_joins(joins: Sequence[JoinFinding], elsewhere: JoinFinding) -> Iterator[Verdict]:
    for join in joins:
        over = join.p95_db - elsewhere.p95_db
        yield at_most(f"sharpness of a {join.place} over elsewhere, dB, p95", over, _CLICK_DB)


def judge_pauses(pauses: Sequence[PauseFinding]) -> Iterator[Verdict]:
    for pause in pauses:
        if pause.mark in _PAUSES_S:
            off = abs(pause.median_s - _PAUSES_S[pause.mark])
            yield at_most(f"pause off what is asked, s: {pause.mark}", off, _PAUSE_OFF_S)
