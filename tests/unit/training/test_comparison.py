"""Teacher and codec are measured once; rows come in order, by processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from talkahead.audio.codec import Codec, CodecConfig

from instruments.material import Sentence
from instruments.measures.frames import Audio
from instruments.setting import Setting
from instruments.teacher import Teacher
from training.comparison import Bench, compare

pytestmark = pytest.mark.needs("flite")

SENTENCES = (
    Sentence("Lemons make punch.", "lemons make punch.", "slt", "short"),
    Sentence("It was late.", "it was late.", "rms", "short"),
)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    torch.manual_seed(0)
    config = CodecConfig(
        encoder_width=8, encoder_blocks=1, decoder_width=8, decoder_hidden=8, decoder_blocks=1
    )
    Codec(config).save(tmp_path / "codec")
    return Setting(tuple(one.words for one in SENTENCES), tmp_path / "codec", tmp_path / "cache")


def test_the_teacher_is_near_itself_and_an_untrained_codec_is_not(setting: Setting) -> None:
    audio = Teacher().speak(SENTENCES[0].words, "slt").audio
    row = Bench(setting).row(SENTENCES[0], audio)
    for heard in (row.teacher, row.talker):
        assert (heard.edits, heard.words, heard.duration_s) == (0, 3, len(audio) / 16_000)
    assert row.teacher.mel_cepstral_db == 0
    assert row.talker.mel_cepstral_db < 1  # flite's noise is never the same twice
    assert row.codec.mel_cepstral_db > 3


def test_what_is_kept_is_used_until_the_codec_changes(setting: Setting) -> None:
    audio = Teacher().speak(SENTENCES[0].words, "slt").audio
    assert Bench(setting).row(SENTENCES[0], audio).teacher.words == 3
    (kept,) = setting.cache.iterdir()
    kept.write_text(kept.read_text().replace('"words": 3', '"words": 33'))
    assert Bench(setting).row(SENTENCES[0], audio).teacher.words == 33
    Codec(CodecConfig(decoder_blocks=1)).save(setting.codec)
    changed = Setting(setting.texts, setting.codec, setting.cache)
    assert Bench(changed).row(SENTENCES[0], audio).teacher.words == 3


def test_rows_come_in_order_from_processes(setting: Setting) -> None:
    def audios() -> Iterator[Audio]:
        teacher = Teacher()
        yield from (teacher.speak(one.words, one.voice).audio for one in SENTENCES)

    rows = list(compare(setting, SENTENCES, audios(), workers=1))
    assert [row.sentence for row in rows] == list(SENTENCES)
    assert [row.talker.edits for row in rows] == [0, 0]
