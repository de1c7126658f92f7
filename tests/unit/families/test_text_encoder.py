"""Padding and neighbours cannot change a prompt."""

from __future__ import annotations

from pathlib import Path

import torch
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig

CONFIG = TextEncoderConfig(voices=("a", "b"), num_symbols=20, width=32, blocks=2)


def test_padding_and_neighbours_change_nothing() -> None:
    torch.manual_seed(0)
    encoder = TextEncoder(CONFIG).double().eval()
    symbols = torch.randint(0, 8, (3, 12, 4))
    lengths, voices = torch.tensor([5, 12, 1]), torch.tensor([0, 1, 1])
    together = encoder(symbols, lengths, voices)
    for row, length in enumerate(lengths.tolist()):
        alone = encoder.prompt(symbols[row, :length], int(voices[row]))
        torch.testing.assert_close(together[row, : length + 1], alone, rtol=0, atol=1e-12)
        assert not together[row, length + 1 :].any()


def test_voice_and_prosody_matter() -> None:
    torch.manual_seed(0)
    encoder = TextEncoder(CONFIG).eval()
    symbols, length = torch.randint(0, 8, (1, 6, 4)), torch.tensor([6])
    plain = encoder(symbols, length, torch.tensor([0]))
    assert not torch.allclose(plain, encoder(symbols, length, torch.tensor([1])))
    for level in (1, 2, 3):
        other = symbols.clone()
        other[0, 3, level] = (other[0, 3, level] + 1) % 8
        assert not torch.allclose(plain, encoder(other, length, torch.tensor([0])))


def test_an_artifact_loads_as_it_was_saved(tmp_path: Path) -> None:
    encoder = TextEncoder(CONFIG).eval()
    encoder.save(tmp_path)
    symbols, length, voice = torch.randint(0, 8, (1, 6, 4)), torch.tensor([6]), torch.tensor([1])
    loaded = TextEncoder.load(tmp_path)
    assert loaded.config == CONFIG
    torch.testing.assert_close(loaded(symbols, length, voice), encoder(symbols, length, voice))


def test_products_in_bfloat16_are_near() -> None:
    """As near as bfloat16 is, and rows that pass by stay float32."""
    torch.manual_seed(0)
    encoder = TextEncoder(CONFIG).eval()
    symbols = torch.randint(0, 8, (30, 4))
    exact, narrow = encoder.prompt(symbols, 1), encoder.to_bfloat16_products().prompt(symbols, 1)
    assert narrow.dtype == torch.float32
    difference = float((narrow - exact).abs().max() / exact.std())
    assert 0 < difference < 0.05
