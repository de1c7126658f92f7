"""A repository whose tiny talker mostly goes round in a circle of codes: who learns it can look far ahead."""

from __future__ import annotations

from pathlib import Path

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import SamplingDefaults
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.generation_config import write_sampling
from talkahead.manifest import Manifest, sha256
from talkahead.text.symbols import NUM_SYMBOLS
from tiny_voice import CODES, SPEECH

WIDTH = 32
_THINGS, _KINDS = ("boat", "house", "tree", "bird"), ("big", "old", "red")
TEXTS = tuple(f"The {thing} is {kind}." for thing in _THINGS for kind in _KINDS)


def periodic_talker(sharpness: float = 0.8) -> Llama:
    """A code is followed by the next one, the last by the end of speech, nine times in ten."""
    config = DecoderConfig(CODES + 1, CODES, WIDTH, 32, 2, 2, 2, 16, 1536)
    talker = Llama(config).requires_grad_(False)
    for name, value in talker.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            value.zero_()
    square = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(5))
    codes = torch.linalg.qr(square)[0][: CODES + 1]
    talker.model.embed_tokens.weight.copy_(codes)
    talker.lm_head.weight.copy_(sharpness * codes.roll(1, 0))
    return talker


def write_repository(folder: Path) -> Path:
    torch.manual_seed(0)
    encoder = TextEncoderConfig(
        voices=("slt", "rms"), num_symbols=NUM_SYMBOLS, width=WIDTH, heads=2, blocks=1
    )
    TextEncoder(encoder).save(folder / "encoder" / "1")
    vocoder = folder / "vocoder" / "1"
    vocoder.mkdir(parents=True)
    SPEECH.save(vocoder)
    talker = folder / "talker" / "1"
    periodic_talker().save(talker)
    write_sampling(SamplingDefaults(), talker)
    files = {path.name: sha256(path) for path in talker.iterdir()}
    Manifest("make tiny", "unknown", "none", 0, {}, files, "CC-BY-4.0").write(talker)
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    return folder
