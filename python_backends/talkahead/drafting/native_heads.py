"""The trees that draft heads grow, in one C call (`native/heads.c`).

Shapes: S rows, N nodes of a tree, K heads, D hidden size, H size of a block, V vocabulary, r rank of
an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, byref, pointer
from pathlib import Path

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.backbone.native_decoder import decoder_library, refuse_uneven
from talkahead.backbone.shortlist import NativeShortlist, Shortlist
from talkahead.drafting.draft_matrices import DraftMatrices
from talkahead.drafting.likely_draws import CONFIDENCE, NARROW
from talkahead.drafting.rank_paths import TreeLevel
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeCall, load_library
from talkahead.speculation.context_addresses import ContextAddresses
from talkahead.speculation.contracts import Context
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import native_sampler

SOURCE = Path(__file__).parent / "native" / "heads.c"
_Heads, _Growth, _ToCome, _Draws, _Growing = (
    native_struct(SOURCE, name) for name in ("heads", "growth", "to_come", "draws", "growing")
)
Linear = tuple[Tensor, Tensor]
"""Weight and bias."""


class NativeHeads:
    """Residual blocks with SiLU, one of each head, each with a linear layer onto the vocabulary.

    Raises NativeUnavailable where it cannot be compiled or D or H do not fill vectors.

    Args:
        inward: [H, D] and [H] of each head's block.
        outward: [D, H] and [D]; empty where a block is one layer, with H = D.
        linears: of each head [V, D], or [r, D] and [V, r] with r up to H; one that is there several times is
            packed once.
        token_rows: [V, D], added to what a head goes on from where a token follows; None: each sees the
            hidden state alone.
        precision: of products, as of `DraftMatrices`.
    """

    def __init__(
        self,
        inward: Sequence[Linear],
        outward: Sequence[Linear],
        linears: Sequence[tuple[Tensor, ...]],
        token_rows: Tensor | None,
        precision: torch.dtype,
    ) -> None:
        inner, hidden = inward[0][0].shape
        vocabulary, rank = linears[0][-1].shape
        refuse_uneven({"hidden_size": hidden, "block_size": inner, "output_rank": rank})
        assert len(linears[0]) == 1 or rank <= inner, "C keeps what is narrowed where inner values were"
        self.library = library = load_library(SOURCE)
        self._packer = packer = DraftMatrices(precision)
        self._matrices = [packer.pack([weight for weight, _ in layers]) for layers in (inward, outward)]
        *narrowings, outputs = zip(*linears, strict=True)
        self._matrices += [packer.pack(own) for own in narrowings]
        shortlists = self._pack_outputs(outputs)
        self.heads = _Heads(
            count=len(linears),
            hidden=hidden,
            inner=inner,
            vocabulary=vocabulary,
            inward=self._matrices[0],
            outward=self._matrices[1] if outward else None,
            inner_biases=packer.keep(torch.cat([bias for _, bias in inward])),
            biases=packer.keep(torch.cat([bias for _, bias in outward])) if outward else None,
            narrowings=self._matrices[2] if narrowings else None,
            linears=self._matrices[-1],
            shortlists=shortlists,
            token_rows=None if token_rows is None else packer.keep(token_rows),
        )
        self.memory = Arena().take(library.talkahead_heads_bytes(byref(self.heads)))
        self.num_guesses = vocabulary if shortlists is None else _guesses_of(shortlists[0])
        """Tokens after a node at most."""

    def _pack_outputs(self, weights: Sequence[Tensor]) -> Array[NativeStruct] | None:
        """Of each head [V, r], in order or as its shortlist has them."""
        distinct = {id(weight): weight for weight in weights}
        found = {name: Shortlist.of(weight, decoder_library()) for name, weight in distinct.items()}
        lists = [one for weight in weights if (one := found[id(weight)])]
        self._matrices.append(self._packer.pack([one.rows for one in lists] or weights))
        self._orders = [one.order for one in lists]  # C points at them
        means = self._packer.pack([one.means for one in lists])
        own = [one.as_native(packed) for one, packed in zip(lists, means, strict=True)]
        return (NativeShortlist * len(own))(*own) if own else None

    def tree(self, levels: Sequence[TreeLevel]) -> NativeTree:
        """These heads, growing trees of one shape, which has a level at least."""
        return NativeTree(self, levels)


def _guesses_of(shortlist: NativeStruct) -> int:
    """Of whole panels: the last one may be cut short."""
    whole: int = (shortlist.panels - 1) * decoder_library().talkahead_panel()
    return whole


class NativeTree:
    """Heads that grow trees of one shape. What they work in is shared: one call at a time.

    Args:
        levels: at most K.

    Raises ValueError for a tree with more growing nodes at a depth than pass through the heads together, or
    with more tokens after a node than they guess.
    """

    def __init__(self, heads: NativeHeads, levels: Sequence[TreeLevel]) -> None:
        most = max(1, *(len(level.grown) for level in levels))
        if most > (rows := heads.library.talkahead_heads_rows()):
            raise ValueError(f"{most} nodes have children at one depth of the tree, and at most {rows} may")
        if (widest := max(level.width for level in levels)) > heads.num_guesses:
            raise ValueError(
                f"{widest} tokens stand after one node of the tree, and at most {heads.num_guesses} may"
            )
        self._heads = heads
        self._columns = {
            "sizes": torch.tensor([len(level.parents) for level in levels]),
            "widths": torch.tensor([level.width for level in levels]),
            "grown": torch.tensor([len(level.grown) for level in levels]),
            "parents": torch.cat([level.parents for level in levels]),
            "ranks": torch.cat([level.ranks for level in levels]),
            "grows": torch.cat([level.grown for level in levels]),
        }
        self._nodes = 1 + len(self._columns["parents"])
        addresses = {name: column.data_ptr() for name, column in self._columns.items()}
        self._growth = _Growth(depth=len(levels), nodes=self._nodes, most=most, **addresses)

    def grow(self, context: Context) -> Tensor:
        """int64 [S, N], the root first; it holds until the next call with this context."""
        grow, tokens = context.keep(self, lambda: self.call(context))
        grow.run()
        return tokens

    def call(self, context: Context) -> tuple[NativeCall, Tensor]:
        """`grow` with this context each time, and what it fills."""
        own = ContextAddresses.of(context)
        to_come, tokens = self._to_come(context, own)
        given = _Growing(
            heads=pointer(self._heads.heads),
            growth=pointer(self._growth),
            to_come=pointer(to_come),
            memory=self._heads.memory.data_ptr(),
            rows=len(tokens),
            hidden=own.hidden,
            roots=own.roots,
            tokens=tokens.data_ptr(),
        )
        library = self._heads.library
        return library.call("talkahead_grow", given, self, to_come, own, tokens), tokens

    def _to_come(self, context: Context, own: ContextAddresses) -> tuple[NativeStruct, Tensor]:
        """What guesses are made for, and room for the trees."""
        sampler = native_sampler()
        assert sampler is not None, "it compiles where decoders do"
        draws = _Draws(
            trials=context.draft_request.trials,
            num_purposes=len(Purpose),
            token_purpose=Purpose.TOKEN,
            trial_purpose=Purpose.TRIAL,
        )
        to_come = _ToCome(
            draws=draws,
            narrow=NARROW,
            confidence=CONFIDENCE,
            order=sampler.order_address,
            settings=own.settings,
            keys=own.keys,
            positions=own.positions,
        )
        return to_come, torch.empty((len(context.positions), self._nodes), dtype=torch.int64)
