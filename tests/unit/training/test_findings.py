"""Figures of a report, computed by hand for a few rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instruments.material import Sentence
from instruments.measures.appraisal import Appraisal
from instruments.measures.pauses import Pause
from training import findings, verdicts
from training.comparison import Row
from training.evaluation import Evaluation
from training.passage import Passage

PLAIN = Appraisal(
    duration_s=2.0,
    edits=0,
    words=10,
    heard="",
    skipped=(),
    repeated=(),
    onset_ms=20.0,
    flatness_db=-20.0,
    high_band_db=-30.0,
    mel_cepstral_db=0.0,
    pitch_rmse_cents=0.0,
    voicing_error_percent=0.0,
)


def row(category: str, voice: str, **talker: object) -> Row:
    sentence = Sentence("Text.", "text.", voice, category)
    return Row(sentence, PLAIN, replace(PLAIN, mel_cepstral_db=2.0), replace(PLAIN, **talker))


ROWS = (
    row("short", "slt", edits=2, duration_s=2.4, mel_cepstral_db=5.0),
    row("short", "rms", edits=0, duration_s=2.6, onset_ms=50.0, pitch_rmse_cents=None),
    row("long", "slt", edits=1, skipped=("a b",), mel_cepstral_db=3.0),
    row("long", "rms", edits=1, repeated=("c d",), onset_ms=None, pitch_rmse_cents=80.0),
)


def test_words_over_all_and_by_category() -> None:
    everything, short, long = findings.word_findings(ROWS)
    assert (everything.sentences, everything.words) == (4, 40)
    assert (everything.teacher, everything.server, everything.difference) == (0, 10, 10)
    assert (everything.durations_right, everything.phrases_wrong) == (75, 50)
    assert (short.category, short.server, short.phrases_wrong) == ("short", 10, 0)
    assert (long.category, long.durations_right, long.phrases_wrong) == ("long", 100, 100)
    assert everything.low <= 10 <= everything.high


def test_what_is_missed_in_the_teachers_audio_too_does_not_count() -> None:
    deaf = replace(PLAIN, skipped=("for a",))
    heard = row("short", "slt", skipped=("for a",))
    assert not heard.keeps_every_phrase
    assert replace(heard, teacher=deaf).keeps_every_phrase
    assert not replace(row("short", "slt", skipped=("or the",)), teacher=deaf).keeps_every_phrase


def test_sounds_by_voice_leave_out_what_cannot_be_told() -> None:
    found = {(one.voice, one.measure): one for one in findings.sound_findings(ROWS)}
    timbre = found["slt", "mel-cepstral distance, dB"]
    assert (timbre.teacher, timbre.codec, timbre.server) == (0, 2, 4)
    assert found["rms", "F0 error, cents"].server == 80


def test_speakers() -> None:
    teacher, _, server = findings.speaker_findings(ROWS)
    assert (teacher.onsets_within_30_ms, teacher.phrases_skipped) == (100, 0)
    assert server.onset_median_ms == 20
    assert server.onsets_within_30_ms == pytest.approx(200 / 3)
    assert (server.phrases_skipped, server.phrases_repeated) == (25, 25)


def test_verdicts_of_a_whole_evaluation() -> None:
    passage = Passage("Text.", "slt", (Pause(".", 0.5), Pause(",", 0.1)), (Pause(".", 0.4), Pause(",", 0.2)))
    sharpness = {"chunk join": [0.0, 20.0], "segment join": [], "elsewhere": [0.0, 1.0]}
    evaluation = Evaluation.of(ROWS, [passage], sharpness)
    kept = {verdict.what: verdict.kept for verdict in evaluation.verdicts}
    assert kept == {
        "word errors over teacher's, points: all": False,
        "word errors over teacher's, points: short": False,
        "word errors over teacher's, points: long": False,
        "durations 0.8 to 1.25 of teacher's, %": False,
        "phrases skipped or repeated, % of sentences": False,
        "spectral flatness, dB, off teacher's: slt": True,
        "energy above 4 kHz, dB, off teacher's: slt": True,
        "spectral flatness, dB, off teacher's: rms": True,
        "energy above 4 kHz, dB, off teacher's: rms": True,
        "speech begins, ms, median": True,
        "speech begins within 30 ms, points under teacher's": False,
        "sharpness of a chunk join over elsewhere, dB, p95": False,
        "pause off what is asked, s: .": True,
    }
    assert len(list(evaluation.tables())) == 6


def test_a_limit_is_kept_when_it_is_reached() -> None:
    assert verdicts.at_most("x", 4.0, 4.0).kept and not verdicts.at_most("x", 4.01, 4.0).kept
    assert verdicts.at_least("x", 99.0, 99.0).kept and not verdicts.at_least("x", 98.9, 99.0).kept
