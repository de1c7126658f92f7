"""Teacher and codec are measured once; rows come in order, by processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.audio.codec import Codec, CodecConfig
from taught import said

from instruments.material import Sentence
from instruments.recording import Recording
from instruments.setting import Setting
from training.comparison import CODEC, SERVER, TEACHER, Bench, compare

pytestmark = pytest.mark.needs("flite")

SENTENCES = (
    Sentence("The train would be late today.", "the train would be late today.", "slt", "short"),
    Sentence("It was late.", "it was late.", "rms", "short"),
)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    torch.manual_seed(0)
    config = CodecConfig(
        encoder_width=8, encoder_blocks=1, decoder_width=8, decoder_hidden=8, decoder_blocks=1
    )
    Codec(config).save(tmp_path / "codec")
    return Setting(tmp_path / "codec", tmp_path / "cache")


def test_the_teacher_is_understood_and_an_untrained_codec_is_not(setting: Setting) -> None:
    recording = said(SENTENCES[0].words, "slt")
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
    Codec(CodecConfig(decoder_blocks=1)).save(setting.codec)
    assert words() == 3


def test_without_a_server_there_are_copies_alone(setting: Setting) -> None:
    assert list(Bench(setting).row(SENTENCES[1], None).systems) == [TEACHER, CODEC]


def test_rows_come_in_order_from_processes(setting: Setting) -> None:
    def served() -> Iterator[Recording]:
        yield from (said(one.words, one.voice) for one in SENTENCES)

    rows = list(compare(setting, SENTENCES, served(), workers=1))
    assert [row.sentence for row in rows] == list(SENTENCES)
    assert [row.systems[SERVER].words for row in rows] == [6, 3]
