"""The text encoder in one C call (`native/text_encoder.c`): what serves on CPUs."""

from __future__ import annotations

from ctypes import byref
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from talkahead.backbone.arena import Arena
from talkahead.backbone.native_decoder import decoder_library, has_tiles, refuse_uneven
from talkahead.backbone.native_matrix import MatrixPacker
from talkahead.families.phonemic.native_layers import (
    Block,
    native_block,
    native_linear,
    native_norm,
    usual_precision,
)
from talkahead.families.phonemic.text_encoder import SelfAttention, TextEncoder
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import load_library

SOURCE = Path(__file__).parent / "native" / "text_encoder.c"
_Wide, _Encoder = (native_struct(SOURCE, name) for name in ("wide_block", "text_encoder"))


class NativeTextEncoder:
    """A `PromptNetwork` on one thread of a CPU, one segment at a time; what is no product is float32.

    Raises NativeUnavailable where it cannot be compiled, or a size does not fill vectors.

    Args:
        encoder: whose weights these are.
        precision: of products, one that the CPU `can_multiply`; None: the `usual_precision`.
    """

    def __init__(self, encoder: TextEncoder, precision: torch.dtype | None = None) -> None:
        precision = precision or usual_precision()
        self.config = config = encoder.config
        self.precision = precision
        refuse_uneven({"width": config.width, "head size": config.width // config.heads})
        self._library = load_library(SOURCE)
        self._packer = packer = MatrixPacker(decoder_library(), precision, in_tiles=has_tiles())
        self._local = (Block * config.blocks)(*map(partial(native_block, packer), encoder.local))
        self._wide = (_Wide * config.blocks)(*map(self._wide_block, encoder.wide))
        levels = torch.stack([table.weight for table in encoder.prosody])  # type: ignore[misc]
        self._encoder = _Encoder(
            width=config.width,
            inner=2 * config.width,
            heads=config.heads,
            count=config.blocks,
            entering=2 if precision is torch.bfloat16 else 1,
            num_symbols=config.num_symbols,
            num_levels=config.num_levels,
            num_voices=len(config.voices) + 1,
            symbols=packer.keep(encoder.symbols.weight),
            levels=packer.keep(levels),
            voices=packer.keep(functional.pad(encoder.voices.weight, (0, 0, 0, 1))),
            start=packer.keep(encoder.start),
            local=self._local,
            wide=self._wide,
            norm=native_norm(packer, encoder.norm),
        )
        self._memory = torch.empty(0, dtype=torch.uint8)  # as much as the longest segment so far has needed

    def prompt(self, symbols: Tensor, voice: int) -> Tensor:
        """See `PromptNetwork`; raises IndexError for a symbol, a level or a voice that there is not."""
        symbols, rows = symbols.to(torch.int64).contiguous(), len(symbols)
        needed = self._library.talkahead_text_bytes(byref(self._encoder), rows)
        if needed > len(self._memory):
            self._memory = Arena().take(needed)
        prompt = torch.empty(rows + 1, self.config.width)
        failed = self._library.talkahead_encode_text(
            byref(self._encoder), self._memory.data_ptr(), symbols.data_ptr(), rows, voice, prompt.data_ptr()
        )
        if failed:
            raise IndexError(f"a symbol of {symbols.tolist()}, or voice {voice}, is unknown to the encoder")
        return prompt

    def _wide_block(self, block: nn.Module) -> NativeStruct:
        assert isinstance(block, SelfAttention)
        inward, outward = (native_linear(self._packer, layer) for layer in (block.inward, block.outward))
        return _Wide(norm=native_norm(self._packer, block.norm), inward=inward, outward=outward)
