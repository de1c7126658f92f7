"""A whole chain of drafted tokens in one C call (`native/chain.c`), where decoders and draws are native.

It means what the drafters do with tensors, and works on their own tables.

Shapes: R slots, S running rows, K kept tokens, T positions of a slot's tables, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, byref, pointer
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from talkahead.backbone.arena import Arena
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.drafting.draft_decoder import DraftDecoder
from talkahead.drafting.draft_matrices import DraftMatrices
from talkahead.native_declarations import NativeStruct, native_struct
from talkahead.native_library import NativeCall, load_library
from talkahead.speculation.context_addresses import ContextAddresses
from talkahead.speculation.contracts import Accepted, Context, DraftCalls, Scored
from talkahead.speculation.draws import Purpose
from talkahead.speculation.native_sampler import native_sampler
from talkahead.speculation.token_tree import TokenTree, chain_of

SOURCE = Path(__file__).parent / "native" / "chain.c"
_Decoder, _Module, _Drafter, _Rows, _Observed, _Drafting, _Observing = (
    native_struct(SOURCE, name)
    for name in ("decoder", "module", "drafter", "rows", "observed", "drafting", "observing")
)


@dataclass(frozen=True)
class NativeModule:
    """What a module is fed.

    Args:
        norm: [D].
        projector: [D out, D in], of the normed states.
        token_rows: [V, D] by token, or [D].
        states: [R, T, D], of the module before.
    """

    norm: Tensor
    projector: Tensor
    token_rows: Tensor
    states: Tensor


@dataclass(frozen=True)
class ChainTables:
    """State by slot, which C reads and writes in place.

    Args:
        said: int64 [R, T].
        kept: int64 [R, K], the first K drafted tokens of the last proposal.
        num_prompt: int64 [R], positions before the first token, or None where there are none.
    """

    said: Tensor
    kept: Tensor
    num_prompt: Tensor | None = None


class NativeChain:
    """Proposes the chains of one drafter, and follows what became of them.

    Args:
        decoders: one that is fed tokens, or one of each module.
        length: of a draft at most.
        tables: of the drafter.
        embeddings: [V, D], of what is fed to a single decoder.
        modules: one for each decoder.
        returns_probs: see `DraftChain`.
    """

    def __init__(
        self,
        decoders: Sequence[NativeDecoder],
        length: int,
        tables: ChainTables,
        *,
        embeddings: Tensor | None = None,
        modules: Sequence[NativeModule] = (),
        returns_probs: bool,
    ) -> None:
        first = decoders[0]
        self._length, self._vocabulary = length, first.vocab_size
        self._returns_probs = returns_probs
        self._library = load_library(SOURCE)
        matrices = DraftMatrices(first.precision)
        self._held: list[object] = [decoders, matrices]  # what C points at
        fed = first.num_slots * first.max_nodes
        sampler = native_sampler()
        assert sampler is not None, "it compiles where decoders do"
        self._drafter = _Drafter(
            length=length,
            slots=first.num_slots,
            table=tables.said.shape[1],
            most_fed=first.max_nodes,
            hidden=first.hidden_size,
            vocabulary=first.vocab_size,
            num_kept=tables.kept.shape[1],
            sees_tokens=bool(modules) and modules[0].token_rows.dim() == 2,
            epsilon=first.config.rms_norm_eps,
            decoders=_array(_Decoder, [_Decoder(**one.addresses) for one in decoders]),
            modules=_array(
                _Module,
                [
                    _Module(
                        projector=matrices.pack([module.projector])[0],
                        norm=self._at(module.norm),
                        token_rows=self._at(module.token_rows),
                        states=self._at(module.states),
                    )
                    for module in modules
                ],
            ),
            embeddings=self._at(embeddings),
            num_prompt=self._at(tables.num_prompt),
            said=self._at(tables.said),
            kept=self._at(tables.kept),
            x=self._at(torch.empty(fed, first.hidden_size)),
            states=self._at(torch.empty(fed, first.hidden_size)),
            logits=self._at(torch.empty(first.num_slots + fed, first.vocab_size)),
            weights=self._at(sampler.workspace(first.vocab_size)),
            memory=self._at(Arena().take(self._library.talkahead_chain_bytes(first.hidden_size))),
            decode=first.decode_address,
            draw=sampler.draw_address,
            draw_with_probs=sampler.draw_with_probs_address,
            purpose=Purpose.TOKEN,
            num_purposes=len(Purpose),
        )

    def _at(self, tensor: Tensor | None) -> int | None:
        """The address of a contiguous tensor, which lives as long as this."""
        if tensor is None:
            return None
        assert tensor.is_contiguous(), "C reads it as it lies"
        self._held.append(tensor)
        return tensor.data_ptr()

    def propose(self, context: Context) -> TokenTree:
        """Raises IndexError where a draft does not fit its slot."""
        rows, tree = context.keep((self, "rows"), lambda: self._rows(context))
        if self._library.talkahead_draft(byref(self._drafter), byref(rows)):
            raise IndexError("a draft does not fit its slot")
        return tree

    def _rows(self, context: Context) -> tuple[NativeStruct, TokenTree]:
        """A context's rows as C takes them, and their trees, which it fills."""
        count, length = len(context.positions), context.draft_request.length(self._length)
        returns_probs = self._returns_probs and context.draft_request.returns_probs
        tokens = torch.empty((count, length + 1, 1), dtype=torch.int64)
        probs = torch.empty((count, length + 1, self._vocabulary)) if returns_probs else None
        own = ContextAddresses.of(context)
        rows = _Rows(
            count=count,
            length=length,
            slots=context.rows.slots.data_ptr(),
            roots=own.roots,
            positions=own.positions,
            hidden=own.hidden,
            keys=own.keys,
            settings=own.settings,
            tokens=tokens.data_ptr(),
            probs=None if probs is None else probs.data_ptr(),
        )
        rows.held = (own, context.rows)
        return rows, TokenTree(tokens, chain_of(length), probs)

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        """Writes down what was said, and cuts KV back to what of it was fed."""
        observed = _observed(tree, scored, accepted, context)
        self._library.talkahead_observe(byref(self._drafter), byref(observed))

    def calls(self, context: Context) -> DraftCalls:
        """See `Drafter.calls`."""
        drafter = pointer(self._drafter)
        propose: tuple[NativeCall, ...] = ()
        if context.draft_request.nodes == 1:
            tree = context.roots_alone
        else:
            rows, tree = self._rows(context)
            given = _Drafting(drafter=drafter, rows=pointer(rows))
            propose = (self._library.call("talkahead_draft_again", given, self, rows, tree),)

        def observe(scored: Scored, accepted: Accepted) -> tuple[NativeCall, ...]:
            observed = _observed(tree, scored, accepted, context)
            given = _Observing(drafter=drafter, observed=pointer(observed))
            return (self._library.call("talkahead_observe_again", given, self, observed),)

        return DraftCalls(tree, propose, observe)


def _observed(tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> NativeStruct:
    """What a step made of a tree, as C takes it; it holds what it points at."""
    own, slots = ContextAddresses.of(context), context.rows.slots
    hidden = scored.hidden.to(torch.float32).contiguous()
    tokens, counts = tree.ids.contiguous(), accepted.counts.contiguous()
    paths, next_roots = accepted.path.contiguous(), accepted.next_roots.contiguous()
    observed = _Observed(
        count=tree.num_rows,
        nodes=tree.num_nodes,
        most=paths.shape[1],
        slots=slots.data_ptr(),
        positions=own.positions,
        tokens=tokens.data_ptr(),
        counts=counts.data_ptr(),
        paths=paths.data_ptr(),
        next_roots=next_roots.data_ptr(),
        before=own.hidden,
        hidden=hidden.data_ptr(),
    )
    observed.held = (own, slots, hidden, tokens, counts, paths, next_roots)
    return observed


def _array(kind: type[NativeStruct], entries: Sequence[NativeStruct]) -> Array[NativeStruct] | None:
    return (kind * len(entries))(*entries) if entries else None


def native_decoders(decoders: Sequence[DraftDecoder]) -> list[NativeDecoder]:
    """All of them, or none if one is not native."""
    found = [one for one in decoders if isinstance(one, NativeDecoder)]
    return found if len(found) == len(decoders) and native_sampler() is not None else []
