"""Figures of a report, computed by hand for a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from instruments.material import Sentence
from instruments.measures.appraisal import Appraisal
from instruments.measures.pauses import Pause
from training import findings, verdicts
from training.comparison import CODEC, SERVER, TEACHER, Row
from training.evaluation import CopyEvaluation, Evaluation
from training.passage import Passage

PLAIN = Appraisal(
    duration_s=2.0,
    edits=0,
    words=10,
    heard="",
    surprise=5.0,
    skipped=(),
    repeated=(),
    onset_ms=20.0,
    p808=4.0,
    stoi=None,
    speaker=(1.0, 0.0),
)
COPY = replace(PLAIN, edits=1, surprise=6.0, p808=3.5, stoi=0.9)


def row(category: str, voice: str, **server: object) -> Row:
    sentence = Sentence("Text.", "text.", voice, category)
    return Row(sentence, {TEACHER: PLAIN, CODEC: COPY, SERVER: replace(PLAIN, **server)})


ROWS = (
    row("short", "slt", edits=2, duration_s=2.4, p808=3.0),
    row("short", "rms", edits=0, duration_s=2.6, onset_ms=50.0, speaker=(0.6, 0.8)),
    row("long", "slt", edits=1, skipped=("a b",), p808=3.0),
    row("long", "rms", edits=1, repeated=("c d",), onset_ms=None),
)


def found(rows: Sequence[Row]) -> dict[tuple[str, str], findings.SystemFinding]:
    return {(one.group, one.system): one for one in findings.system_findings(rows)}


def test_systems_side_by_side_over_all_by_category_and_by_voice() -> None:
    by_group = found(ROWS)
    groups = ["all", "short", "long", "slt", "rms"]
    assert list(by_group) == [(group, system) for group in groups for system in (TEACHER, CODEC, SERVER)]
    teacher, copy, server = (by_group["all", system] for system in (TEACHER, CODEC, SERVER))
    assert (teacher.word_errors, copy.word_errors, server.word_errors) == (0, 10, 10)
    assert (copy.more_word_errors.low, copy.more_word_errors.high) == pytest.approx((10, 10))
    assert server.more_word_errors.low < server.more_word_errors.value == 10 < server.more_word_errors.high
    assert (teacher.surprise, copy.surprise, copy.more_surprise.value) == pytest.approx((50, 60, 10))
    assert (server.durations_right, server.phrases_wrong) == (75, 50)
    assert (copy.more_p808.value, server.p808, server.more_p808.value) == (-0.5, 3.5, -0.5)
    assert by_group["slt", SERVER].p808 == 3 and by_group["rms", SERVER].p808 == 4
    assert (by_group["short", SERVER].phrases_wrong, by_group["long", SERVER].phrases_wrong) == (0, 100)
    assert (copy.stoi, teacher.stoi) == (pytest.approx(0.9), None)
    assert (teacher.onsets_within_30_ms, server.onsets_within_30_ms) == (100, 50)
    assert server.onset_median_ms == 20


def test_speakers_are_compared_with_the_teacher_in_the_same_voice() -> None:
    """Whose mean is taken over what the teacher says in that voice alone."""
    other = replace(PLAIN, speaker=(0.0, 1.0))
    rows = [
        replace(one, systems={**one.systems, TEACHER: other}) for one in ROWS if one.sentence.voice == "rms"
    ]
    by_group = found([*(one for one in ROWS if one.sentence.voice == "slt"), *rows])
    assert by_group["slt", SERVER].similarity == by_group["rms", TEACHER].similarity == pytest.approx(1)
    assert by_group["rms", SERVER].similarity == pytest.approx(0.4)
    assert by_group["rms", SERVER].more_similarity.value == pytest.approx(-0.6)


def test_embeddings_are_not_kept() -> None:
    assert {one.speaker for row in findings.without_speakers(ROWS) for one in row.systems.values()} == {()}


def test_one_voice_is_a_group_once() -> None:
    assert {group for group, _ in found(ROWS[:1])} == {"all", "short"}


def test_what_is_missed_in_the_teachers_audio_too_does_not_count() -> None:
    deaf = replace(PLAIN, skipped=("for a",))
    heard = row("short", "slt", skipped=("for a",))
    assert not heard.keeps_every_phrase(SERVER)
    assert replace(heard, systems={**heard.systems, TEACHER: deaf}).keeps_every_phrase(SERVER)
    other = row("short", "slt", skipped=("or the",))
    assert not replace(other, systems={**other.systems, TEACHER: deaf}).keeps_every_phrase(SERVER)


def test_verdicts_of_a_whole_evaluation() -> None:
    passage = Passage("Text.", "slt", (Pause(".", 0.5), Pause(",", 0.1)))
    sharpness = {"chunk join": [0.0, 20.0], "segment join": [], "elsewhere": [0.0, 1.0]}
    evaluation = Evaluation.of(ROWS, [passage], sharpness)
    kept = {verdict.what: verdict.kept for verdict in evaluation.verdicts}
    assert kept == {
        "codec: word errors over the teacher's, points": False,
        "codec: DNSMOS p808 under the teacher's": False,
        "word errors over the teacher's, points": False,
        "DNSMOS p808 under the teacher's": False,
        "similarity to the teacher's speaker": True,
        "durations 0.8 to 1.25 of the teacher's, %": False,
        "phrases skipped or repeated, % of sentences": False,
        "speech begins, ms, median": True,
        "speech begins within 30 ms, points under the teacher's": False,
        "sharpness of a chunk join over elsewhere, dB, p95": False,
        "pause off what is asked, s: .": True,
    }
    assert len(list(evaluation.tables())) == 4


def test_copies_are_judged_without_a_server() -> None:
    rows = [replace(one, systems={name: one.systems[name] for name in (TEACHER, CODEC)}) for one in ROWS]
    evaluation = CopyEvaluation.of(rows)
    assert [verdict.kept for verdict in evaluation.verdicts] == [False, False]
    systems, _ = evaluation.tables()
    assert "-0.50 (-0.50 to -0.50)" in systems


def test_a_limit_is_kept_when_it_is_reached() -> None:
    assert verdicts.at_most("x", 4.0, 4.0).kept and not verdicts.at_most("x", 4.01, 4.0).kept
    assert verdicts.at_least("x", 99.0, 99.0).kept and not verdicts.at_least("x", 98.9, 99.0).kept
