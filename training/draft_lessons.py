"""What drafts learn from: the frozen talker's hidden states over the dataset, made as they are needed.

Shapes: B utterances, T places (frames and the end of speech) of the longest, P prompt rows, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.families.phonemic.text_encoder import TextEncoder
from torch import Tensor

from instruments.dataset import Batch

IGNORE = -100


@dataclass(frozen=True)
class Lesson:
    """Utterances as the talker sees them.

    Args:
        rows: [B, P + T - 1, D], each one's prompt and then its frames, embedded, without a gap.
        starts: int64 [B], the row whose hidden state draws the first frame.
        hidden: [B, T, D], the talker's; hidden[:, t] draws tokens[:, t].
        tokens: int64 [B, T], frames and the end of speech, then IGNORE.
        expected: bfloat16 [B, T, V], the talker's distribution of each token, where drafts learn it.
    """

    rows: Tensor
    starts: Tensor
    hidden: Tensor
    tokens: Tensor
    expected: Tensor | None = None

    @property
    def known(self) -> Tensor:
        """`tokens` with something harmless behind the end."""
        return self.tokens.clamp_min(0)


def drawing(states: Tensor, starts: Tensor, count: int) -> Tensor:
    """Of states at every row, [B, P + T - 1, D], those that draw the tokens, [B, count, D]."""
    places = (starts[:, None] + torch.arange(count)).clamp_max(states.shape[1] - 1)
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))


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
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.llama(joined).hidden.float()
        tokens = self._tokens(batch)
        states = drawing(hidden, batch.num_symbols, tokens.shape[1])
        expected = self._expected(states) if tells_expected else None
        return Lesson(joined, batch.num_symbols, states, tokens, expected)

    @torch.no_grad()
    def _expected(self, states: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits: Tensor = self.llama.lm_head(states)
        return logits.float().softmax(-1).bfloat16()

    def _tokens(self, batch: Batch) -> Tensor:
        longest = int(batch.num_frames.max()) + 1
        place = torch.arange(longest)
        tokens = torch.nn.functional.pad(batch.frames, (0, longest))[:, :longest]
        tokens = torch.where(place < batch.num_frames[:, None], tokens, IGNORE)
        is_end = place == batch.num_frames[:, None]
        return torch.where(is_end, self.llama.config.eos, tokens)
