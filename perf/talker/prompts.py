"""What every talker of a comparison is given to say."""

from __future__ import annotations

from pathlib import Path

import torch
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.text.frontend import TextFrontend

from perf.talker.talker import Prompt
from perf.texts import TEXTS


def text_prompts(repository: Path) -> list[Prompt]:
    """The prompts of all texts, one segment each."""
    frontend, encoder = TextFrontend(), TextEncoder.load(repository / "encoder" / "1")
    segments = (frontend.segments(text)[0] for text in TEXTS)
    return [encoder.prompt(torch.from_numpy(segment.symbols), 0).numpy() for segment in segments]
