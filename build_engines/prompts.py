"""From a file of texts to the prompts of a talker, as the server's first two models make them."""

from __future__ import annotations

from itertools import islice, product
from pathlib import Path

import torch
from talkahead.backbone.text_encoder import TextEncoder
from talkahead.text import TextFrontend
from torch import Tensor


@torch.inference_mode()
def make_prompts(encoder_folder: Path, texts: Path, count: int) -> list[Tensor]:
    """Prompts [P, D] of the texts, one a line, in every voice; at most `count`."""
    encoder, frontend = TextEncoder.load(encoder_folder), TextFrontend()
    lines = [line.strip() for line in texts.read_text().splitlines() if line.strip()]
    voices = range(len(encoder.config.voices))
    prompts = (
        _prompt(encoder, torch.from_numpy(segment.symbols).to(torch.int64), voice)
        for line, voice in product(lines, voices)
        for segment in frontend.segments(line)
    )
    return list(islice(prompts, count))


def _prompt(encoder: TextEncoder, symbols: Tensor, voice: int) -> Tensor:
    prompt: Tensor = encoder(symbols[None], torch.tensor([len(symbols)]), torch.tensor([voice]))
    return prompt[0]
