"""Prompts of the talker of `model_repository`: of a dataset's texts, and of sentences.

Shapes: P prompt rows, D hidden size.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import torch
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.text import TextFrontend
from torch import Tensor

from instruments.dataset import Dataset
from instruments.material import Sentence

_BATCH = 4_000
"""Padded positions of a batch of prompts."""


def read_prompts(encoder_folder: Path, dataset: Dataset, count: int, seed: int) -> list[Tensor]:
    """Prompts [P, D] of `count` texts of a split, or of all when it has fewer."""
    encoder = TextEncoder.load(encoder_folder)
    prompts = (
        encoder.prompt(symbols[:length], int(voice))
        for batch in dataset.batches(_BATCH, seed)
        for symbols, length, voice in zip(batch.symbols, batch.num_symbols, batch.voices, strict=True)
    )
    return list(islice(prompts, count))


def sentence_prompts(encoder: TextEncoder, sentences: Iterable[Sentence]) -> list[Tensor]:
    """Prompts [P, D] of sentences of one segment each, in their voices."""
    frontend, voices = TextFrontend(), encoder.config.voices
    return [
        encoder.prompt(torch.from_numpy(frontend.segments(one.text)[0].symbols), voices.index(one.voice))
        for one in sentences
    ]
