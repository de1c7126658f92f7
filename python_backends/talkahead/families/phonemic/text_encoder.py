"""The text encoder: phonemes, prosody and voice to the talker's prompt, looking both ways.

Padding can change a result by rounding alone: it is masked out of attention, and zero in the frame blocks.
What is served has none (`TextEncoder.prompt`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from talkahead.families.phonemic.frame_block import FrameBlock
from talkahead.weights import Unfilled, load_float32


@dataclass(frozen=True)
class TextEncoderConfig:
    """Shape of the text encoder; `width` equals the talker's hidden size."""

    voices: tuple[str, ...]
    num_symbols: int
    num_levels: int = 8
    width: int = 256
    heads: int = 4
    blocks: int = 3
    dropout: float = 0.1

    @classmethod
    def from_file(cls, path: Path) -> Self:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "voices": tuple(fields["voices"])})


class PromptNetwork(Protocol):
    """The text encoder, whatever runs it."""

    @property
    def config(self) -> TextEncoderConfig: ...

    @property
    def precision(self) -> torch.dtype:
        """Of its products."""

    def prompt(self, symbols: Tensor, voice: int) -> Tensor:
        """The prompt [T + 1, D] of one segment's symbols, int32 or int64 [T, 4]."""


class SelfAttention(nn.Module):
    """Residual multi-head attention over the valid rows. [B, T, D], allowed [B, 1, 1, T] -> [B, T, D]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, rows: Tensor, allowed: Tensor) -> Tensor:
        batch, length, width = rows.shape
        entering = self.norm(rows).to(self.inward.weight.dtype)
        parts = self.inward(entering).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        change: Tensor = self.outward(mixed.transpose(1, 2).reshape(batch, length, width))
        return rows + change.to(rows.dtype)


class TextEncoder(nn.Module):
    """Bidirectional encoder of one segment.

    `forward`: symbols int64 [B, T, 4], lengths int64 [B], voices int64 [B] -> prompts [B, T + 1, D]. Row b
    holds `lengths[b]` symbol rows and then the start row, from which the talker draws its first frame; the
    rest is zero. Voice `len(config.voices)` is none of them: the voice of the reference that the prompt goes
    on with.
    """

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.symbols = nn.Embedding(config.num_symbols, config.width)
        self.prosody = nn.ModuleList(nn.Embedding(config.num_levels, config.width) for _ in range(3))
        self.voices = nn.Embedding(len(config.voices), config.width)
        self.start = nn.Parameter(torch.randn(config.width) * 0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.local = nn.ModuleList(
            FrameBlock(config.width, 2 * config.width, 2, 2) for _ in range(config.blocks)
        )
        self.wide = nn.ModuleList(SelfAttention(config.width, config.heads) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, symbols: Tensor, lengths: Tensor, voices: Tensor) -> Tensor:
        valid = torch.arange(symbols.shape[1], device=symbols.device) < lengths[:, None]
        mask = valid[..., None].to(self.start.dtype)
        voice = functional.embedding(voices, functional.pad(self.voices.weight, (0, 0, 0, 1)))[:, None]
        rows = self.symbols(symbols[..., 0]) + voice
        for level, embedding in enumerate(self.prosody, 1):
            rows = rows + embedding(symbols[..., level])
        rows = self.dropout(rows * mask)
        for local, wide in zip(self.local, self.wide, strict=True):
            rows = local(rows, mask)
            rows = self.dropout(wide(rows, valid[:, None, None]) * mask)
        prompts = functional.pad(self.norm(rows) * mask, (0, 0, 0, 1))
        start = (self.start + voice).expand(-1, 1, -1).to(prompts.dtype)
        return prompts.scatter(1, lengths[:, None, None].expand_as(start), start)

    @property
    def precision(self) -> torch.dtype:
        dtype: torch.dtype = cast(SelfAttention, self.wide[0]).inward.weight.dtype
        return dtype

    def to_bfloat16_products(self) -> Self:
        """Multiplies in bfloat16, in a fraction of the time where the CPU has such products; sums, norms and
        what passes by stay float32."""
        for block in (*self.local, *self.wide):
            for layer in block.children():
                if isinstance(layer, nn.Linear):
                    layer.bfloat16()
        return self

    @torch.inference_mode()
    def prompt(self, symbols: Tensor, voice: int) -> Tensor:
        """The prompt [T + 1, D] of one segment, int32 or int64 [T, 4], by itself and without padding.

        The bits of a product depend on its shape: in a batch they would depend on the neighbours, and a
        talker of narrow products would make other tokens of them.
        """
        device = symbols.device
        length, voices = torch.tensor([len(symbols)], device=device), torch.tensor([voice], device=device)
        prompts: Tensor = self(symbols[None].to(torch.int64), length, voices)
        return prompts[0]

    def save(self, folder: Path) -> None:
        """Writes `encoder.json` and `encoder.safetensors`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "encoder.json").write_text(
            json.dumps(asdict(self.config), indent=2) + "\n", encoding="utf-8"
        )
        save_file(self.state_dict(), folder / "encoder.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote, as float32, ready for inference."""
        with Unfilled():
            encoder = cls(TextEncoderConfig.from_file(folder / "encoder.json"))
        encoder.load_state_dict(load_float32(folder / "encoder.safetensors"))
        return encoder.eval().requires_grad_(False)
