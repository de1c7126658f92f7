"""Lessons of the frozen talker over the dataset, made as they are needed.

Shapes: B utterances, T places (frames and the end of speech) of the longest, P prompt rows, D hidden size.
"""

from __future__ import annotations

from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.lesson import Lesson, drawing
from talkahead.families.phonemic.text_encoder import TextEncoder
from torch import Tensor

from instruments.dataset import Batch


class FrozenTalker:
    """Text encoder and talker as they are served; neither learns unless it is asked to (`requires_grad_`)."""

    def __init__(self, repository: Path) -> None:
        self.folder = repository / "talker" / "1"
        self.encoder = TextEncoder.load(repository / "encoder" / "1")
        self.llama = Llama.load(self.folder)

    def lesson(self, batch: Batch, *, tells_expected: bool = False) -> Lesson:
        prompts = self.encoder(batch.symbols, batch.num_symbols, batch.voices)
        embedded = self.llama.model.embed_tokens(batch.frames)
        rows = [
            torch.cat([prompt[: length + 1], frames[:count]])
            for prompt, length, frames, count in zip(
                prompts, batch.num_symbols, embedded, batch.num_frames, strict=True
            )
        ]
        joined = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        with fast_products():
            hidden = self.llama(joined).hidden.float()
        tokens = batch.tokens(self.llama.config.eos)
        states = drawing(hidden, batch.num_symbols, tokens.shape[1])
        expected = self._expected(states) if tells_expected else None
        return Lesson(joined, batch.num_symbols, states, tokens, expected)

    @torch.no_grad()
    def _expected(self, states: Tensor) -> Tensor:
        with fast_products():
            logits: Tensor = self.llama.lm_head(states)
        return logits.float().softmax(-1).bfloat16()
