"""From a file of texts to the prompts of a talker, as the server's first two models make them."""

from __future__ import annotations

from itertools import islice, product
from pathlib import Path

import torch
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.text import TextFrontend
from torch import Tensor


def make_prompts(encoder_folder: Path, texts: Path, count: int) -> list[Tensor]:
    """Prompts [P, D] of the texts, one a line, in every voice; at most `count`."""
    encoder, frontend = TextEncoder.load(encoder_folder), TextFrontend()
    lines = [line.strip() for line in texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    voices = range(len(encoder.config.voices))
    prompts = (
        encoder.prompt(torch.from_numpy(segment.symbols), voice)
        for line, voice in product(lines, voices)
        for segment in frontend.segments(line)
    )
    return list(islice(prompts, count))
