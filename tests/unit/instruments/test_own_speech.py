"""Prompts of the talker's own speech are the server's: one segment each, unpadded, in its voice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.text import TextFrontend
from talkahead.text.symbols import NUM_SYMBOLS

from instruments.dataset import Dataset
from instruments.material import Sentence
from instruments.own_speech import read_prompts, sentence_prompts

SIZES = (3, 9, 2, 5)


@pytest.fixture
def encoder() -> TextEncoder:
    torch.manual_seed(0)
    return TextEncoder(TextEncoderConfig(("one", "two"), NUM_SYMBOLS, width=16, heads=2)).eval()


def test_sentences_are_spoken_by_their_voices(encoder: TextEncoder) -> None:
    asked = [Sentence("A warm wind.", "", "two", ""), Sentence("A warm wind.", "", "one", "")]
    symbols = torch.from_numpy(TextFrontend().segments("A warm wind.")[0].symbols)
    expected = [encoder.prompt(symbols, voice) for voice in (1, 0)]
    assert not torch.equal(*expected)
    assert all(map(torch.equal, sentence_prompts(encoder, asked), expected))


def test_a_dataset_gives_prompts_without_padding(encoder: TextEncoder, tmp_path: Path) -> None:
    """Utterance n has symbols n and the voice n modulo 2."""
    symbols = [np.full((size, 4), number, np.int16) for number, size in enumerate(SIZES)]
    count = len(SIZES)
    np.savez(
        tmp_path / "dataset.npz",
        symbols=np.concatenate(symbols),
        frames=np.zeros(4 * count, np.int16),
        spoken=np.zeros(4 * count, np.int16),
        num_symbols=np.array(SIZES),
        num_frames=np.full(count, 4),
        voices=np.arange(count) % 2,
        splits=np.array(["train"] * count),
        voice_names=np.array(encoder.config.voices),
    )
    encoder.save(tmp_path / "encoder")
    found = read_prompts(tmp_path / "encoder", Dataset(tmp_path / "dataset.npz", "train"), 9, seed=1)
    expected = [encoder.prompt(torch.from_numpy(one), number % 2) for number, one in enumerate(symbols)]
    assert [len(one) for one in sorted(found, key=len)] == [size + 1 for size in sorted(SIZES)]
    for prompt in found:
        assert any(prompt.shape == one.shape and torch.equal(prompt, one) for one in expected)
