"""The text encoder in native code: what torch computes in float32, as near as its precision is."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone import native_decoder
from talkahead.families.phonemic import native_layers, native_text_encoder
from talkahead.families.phonemic.native_text_encoder import NativeTextEncoder
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig

CONFIGS = {
    "as served": TextEncoderConfig(("a", "b"), 20, width=320, heads=5, blocks=2),
    "wide heads": TextEncoderConfig(("a",), 20, width=96, heads=1, blocks=1),
    "narrow heads": TextEncoderConfig(("a",), 20, width=64, heads=4, blocks=3),
}
WAYS = [
    pytest.param((torch.float32, False, 2e-5), id="float32 in panels"),
    pytest.param((torch.bfloat16, False, 0.05), id="bfloat16 in panels", marks=pytest.mark.needs("bfloat16")),
    pytest.param((torch.float32, True, 2e-5), id="float32 in tiles", marks=pytest.mark.needs("amx")),
    pytest.param((torch.bfloat16, True, 0.05), id="bfloat16 in tiles", marks=pytest.mark.needs("amx")),
    pytest.param((torch.int8, False, 0.2), id="bytes in panels", marks=pytest.mark.needs("int8")),
    pytest.param((torch.int8, True, 0.2), id="bytes in tiles", marks=pytest.mark.needs("amx")),
]
LENGTHS = (1, 2, 15, 64, 65, 96, 97, 230)
"""Around whole vectors, panels and chunks."""


def encoder_of(config: TextEncoderConfig) -> TextEncoder:
    """Weights that bfloat16 does not hold, large enough for symbols to matter to each other."""
    torch.manual_seed(0)
    encoder = TextEncoder(config).eval().requires_grad_(False)
    for name, value in encoder.named_parameters():
        value.mul_(1.5) if "weight" in name else value.add_(0.1 * torch.randn(value.shape))
    return encoder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_prompts_are_near_those_of_double_precision(
    config: TextEncoderConfig, way: tuple[torch.dtype, bool, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    precision, in_tiles, near = way
    monkeypatch.setattr(native_text_encoder, "has_tiles", lambda: in_tiles)
    native = NativeTextEncoder(encoder_of(config), precision)
    exact = encoder_of(config).double()
    for length in LENGTHS:
        symbols = torch.randint(0, 8, (length, 4), dtype=torch.int32)
        for voice in range(len(config.voices) + 1):
            ours, wanted = native.prompt(symbols, voice), exact.prompt(symbols, voice)
            assert ours.shape == (length + 1, config.width)
            assert float((ours - wanted).abs().max() / wanted.std()) < near


@pytest.mark.parametrize(
    ("abilities", "precision"),
    [
        ({torch.float32, torch.bfloat16, torch.int8, "tiles"}, torch.bfloat16),
        ({torch.float32, torch.bfloat16, torch.int8}, torch.int8),
        ({torch.float32, torch.int8}, torch.int8),
        ({torch.float32}, torch.float32),
    ],
    ids=["tiles", "no tiles", "no bfloat16", "neither"],
)
def test_products_are_of_bytes_but_in_tiles(
    abilities: set[object], precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_layers, "has_tiles", lambda: "tiles" in abilities)
    monkeypatch.setattr(native_decoder, "can_multiply", lambda kind: kind in abilities)
    assert native_layers.usual_precision() is precision


def test_every_symbol_hears_every_other() -> None:
    encoder = encoder_of(CONFIGS["narrow heads"])
    native = NativeTextEncoder(encoder, torch.float32)
    symbols = torch.randint(0, 8, (120, 4))
    plain = native.prompt(symbols, 0)
    for changed in (0, 119):
        other = symbols.clone()
        other[changed, 0] += 1
        assert (native.prompt(other, 0) - plain)[:120].abs().amax(1).min() > 0


def test_a_prompt_is_the_same_whatever_was_encoded_before() -> None:
    native = NativeTextEncoder(encoder_of(CONFIGS["as served"]))
    symbols, longer = torch.randint(0, 8, (30, 4)), torch.randint(0, 8, (200, 4))
    first = native.prompt(symbols, 0)
    native.prompt(longer, 1)
    assert torch.equal(native.prompt(symbols, 0), first)


@pytest.mark.parametrize(
    ("row", "voice"), [((20, 0, 0, 0), 0), ((0, 0, 8, 0), 0), ((-1, 0, 0, 0), 0), ((0,) * 4, 3)]
)
def test_what_the_encoder_does_not_know_is_refused(row: tuple[int, ...], voice: int) -> None:
    native = NativeTextEncoder(encoder_of(CONFIGS["as served"]))
    with pytest.raises(IndexError, match="unknown to the encoder"):
        native.prompt(torch.tensor([row]), voice)
