"""The best tokens of draft heads in one C call (`native/heads.h`).

Shapes: S rows, K heads, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_int64, c_void_p

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.backbone.native_decoder import can_multiply, decoder_library, has_tiles, refuse_uneven
from talkahead.backbone.native_matrix import Matrix, MatrixPacker, plain


class _Heads(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("count", "hidden", "vocabulary")),
        ("blocks", Matrix),
        ("biases", c_void_p),
        ("heads", POINTER(Matrix)),
    )


class NativeHeads:
    """Residual blocks with SiLU, each with a head of its own, on one hidden state.

    In float32 and bfloat16 states stay float32, and weights are what they are, rounded to bfloat16 in the
    latter; in int8 products are of whole numbers.

    Raises NativeUnavailable where it cannot be compiled or D does not fill vectors.

    Args:
        blocks: [D, D] and biases [D] of each head.
        heads: [V, D] of each.
        precision: of products; what the CPU does not multiply is float32.
    """

    def __init__(
        self, blocks: Sequence[tuple[Tensor, Tensor]], heads: Sequence[Tensor], precision: torch.dtype
    ) -> None:
        vocabulary, hidden = heads[0].shape
        refuse_uneven({"hidden_size": hidden})
        self._library = library = decoder_library()
        library.talkahead_heads_bytes.argtypes = [POINTER(_Heads)]
        library.talkahead_heads_bytes.restype = c_int64
        library.talkahead_guess.argtypes = [
            *(POINTER(_Heads), c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p)
        ]
        library.talkahead_guess.restype = None
        is_bytes = precision is torch.int8 and can_multiply(precision)
        own = torch.int8 if is_bytes else torch.float32
        self._packer = packer = MatrixPacker(library, own, in_tiles=has_tiles())
        wide = [plain(head) for head in heads]
        rounded = [head.bfloat16().float() for head in wide] if precision is torch.bfloat16 else wide
        self._matrices = (Matrix * len(heads))()
        self._heads = _Heads(
            count=len(heads),
            hidden=hidden,
            vocabulary=vocabulary,
            blocks=packer.pack(torch.cat([weight for weight, _ in blocks])),
            biases=packer.keep(torch.cat([bias for _, bias in blocks])),
            heads=self._matrices,
        )
        for place, head in enumerate(rounded):
            self._matrices[place] = packer.pack(head)
        self._memory = Arena().take(library.talkahead_heads_bytes(byref(self._heads)))

    def best(self, hidden: Tensor, widths: Tensor) -> Tensor:
        """int64 [S, sum of widths] after hidden [S, D]: the int64 `widths` best tokens of the first heads."""
        states = hidden.to(torch.float32).contiguous()
        best = torch.empty((len(states), sum(widths.tolist())), dtype=torch.int64)
        self._library.talkahead_guess(
            byref(self._heads),
            self._memory.data_ptr(),
            len(states),
            states.data_ptr(),
            len(widths),
            widths.data_ptr(),
            best.data_ptr(),
        )
        return best
