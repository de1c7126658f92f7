"""Rows of a table that stays in its file; marks become what the encoder alone knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.table_encoder import TABLE, WEIGHTS, EncoderConfig, NamedVoice, TableEncoder
from talkahead.families.text_prompt import SPEECH, VOICE
from torch import Tensor

FIRST, CODES = 10, 4
VOICES = (NamedVoice("ann", (7, 8)), NamedVoice("ben", (9,), ((3, 0), (1, 2)), "I am Ben."))


def units(*ids: int) -> np.ndarray:
    return np.array(ids, np.int32)[:, None]


@pytest.fixture
def table(tmp_path: Path) -> Tensor:
    made = torch.arange(20.0)[:, None].repeat(1, 3).to(torch.bfloat16)
    save_file({TABLE: made}, tmp_path / WEIGHTS)
    EncoderConfig(FIRST, (CODES, CODES), VOICES).save(tmp_path)
    return made


def rows(
    encoder: TableEncoder, ids: np.ndarray, voice: int, reference: np.ndarray | None = None
) -> list[float]:
    prompt = encoder.prompt(ids, voice, reference)
    assert prompt.dtype == torch.float32
    assert prompt.shape[1] == encoder.width == 3
    return prompt[:, 0].tolist()


def test_marks_become_words_and_speech(table: Tensor, tmp_path: Path) -> None:
    encoder = TableEncoder(tmp_path)
    marked = units(1, VOICE, 2, SPEECH)
    assert rows(encoder, marked, 0) == [1, 7, 8, 2]
    assert rows(encoder, marked, 1) == [1, 9, 2, 13, 14, 11, 16]
    heard = np.array([[0, 3]], np.int32)
    assert rows(encoder, units(1, 5, 2, SPEECH, 6), 2, heard) == [1, 5, 2, 10, 17, 6]


def test_it_tells_the_speech_that_a_prompt_goes_on_from(table: Tensor, tmp_path: Path) -> None:
    encoder, heard = TableEncoder(tmp_path), np.array([[0, 3]], np.int32)
    none, stored = (encoder.spoken(voice, None) for voice in (0, 1))
    assert none is not None and none.shape == (0, 2)
    assert stored is not None and stored.tolist() == [[3, 0], [1, 2]]
    assert encoder.spoken(len(VOICES), heard) is heard


def test_what_is_no_unit_is_refused(table: Tensor, tmp_path: Path) -> None:
    """-1 among them: the frontend sends it where it has failed, and the table has a last row."""
    encoder = TableEncoder(tmp_path)
    for wrong in (-1, 20, VOICE, SPEECH):
        with pytest.raises(TalkaheadError, match=f"unit {wrong} is none"):
            encoder.prompt(units(1, wrong), len(VOICES), None)


def test_a_table_is_mapped_not_loaded(tmp_path: Path) -> None:
    save_file({TABLE: torch.zeros(1 << 20, 64, dtype=torch.bfloat16)}, tmp_path / WEIGHTS)
    EncoderConfig(FIRST, (CODES,), ()).save(tmp_path)
    before = _own_megabytes()
    encoder = TableEncoder(tmp_path)
    assert len(encoder.prompt(units(*range(300)), 0, None)) == 300
    assert _own_megabytes() - before < 32  # of 128


def _own_megabytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) >> 10


def test_a_table_without_rows_for_speech_is_refused(table: Tensor, tmp_path: Path) -> None:
    EncoderConfig(13, (CODES, CODES), ()).save(tmp_path)
    with pytest.raises(ArtifactMismatch, match="has 20 rows; speech needs 8 from 13 on"):
        TableEncoder(tmp_path)
    (tmp_path / "encoder.json").write_text("{}")
    with pytest.raises(ArtifactMismatch, match=r"encoder\.json cannot be read"):
        TableEncoder(tmp_path)
