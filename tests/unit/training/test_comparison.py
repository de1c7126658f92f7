"""Teacher and codec are measured once; rows come in order, by processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.families.phonemic.spectral_decoder import SpectralConfig
from talkahead.text import TextFrontend

from instruments.material import Sentence
from instruments.recording import Recording
from instruments.setting import Setting
from training.comparison import CODEC, SERVER, TEACHER, Bench, compare
from training.spectral_autoencoder import SpectralAutoencoder
from training.spectral_corpus import teacher as its_teacher

SENTENCES = (
    Sentence("The train would be late today.", "the train would be late today.", "heart", "short"),
    Sentence("It was late.", "it was late.", "heart", "short"),
)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    write_codec(tmp_path / "codec")
    return Setting(tmp_path / "codec", tmp_path / "cache")


def write_codec(folder: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    SpectralAutoencoder(SpectralConfig(width=8, inner=8, blocks=1, pitch_width=8)).save(folder)


def said(words: str) -> Recording:
    (segment,) = TextFrontend().segments(words)
    return its_teacher().recording(segment.spoken)


def test_the_teacher_is_understood_and_an_untrained_codec_is_not(setting: Setting) -> None:
    recording = said(SENTENCES[0].words)
    row = Bench(setting).row(SENTENCES[0], recording)
    teacher, codec, server = (row.systems[name] for name in (TEACHER, CODEC, SERVER))
    for heard in (teacher, server):
        assert (heard.edits, heard.words, heard.duration_s) == (0, 6, recording.seconds)
    assert codec.edits > 2 and codec.p808 < teacher.p808 - 0.5
    assert codec.stoi is not None and codec.stoi < 0.5
    assert teacher.stoi is None and server.stoi is None
    assert np.dot(teacher.speaker, server.speaker) > 0.95 > 0.8 > np.dot(teacher.speaker, codec.speaker)


def test_what_is_kept_is_used_until_the_codec_changes(setting: Setting) -> None:
    def words() -> int:
        return Bench(Setting(setting.codec, setting.cache)).row(SENTENCES[1], None).systems[TEACHER].words

    assert words() == 3
    (kept,) = setting.cache.iterdir()
    kept.write_text(kept.read_text().replace('"words": 3', '"words": 33'))
    assert words() == 33
    write_codec(setting.codec, seed=1)
    assert words() == 3


def test_without_a_server_there_are_copies_alone(setting: Setting) -> None:
    assert list(Bench(setting).row(SENTENCES[1], None).systems) == [TEACHER, CODEC]


def test_rows_come_in_order_from_processes(setting: Setting) -> None:
    def served() -> Iterator[Recording]:
        yield from (said(one.words) for one in SENTENCES)

    rows = list(compare(setting, SENTENCES, served(), workers=1))
    assert [row.sentence for row in rows] == list(SENTENCES)
    assert [row.systems[SERVER].words for row in rows] == [6, 3]
