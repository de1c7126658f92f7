"""A small talker drafts for the large one: its first layers, trained on, with a KV of their own.

After Leviathan et al. 2023; the draft is cut from the target as in Yanuka et al. 2025, section 3.1.

Shapes: R slots, S running rows, L drafted tokens, P prompt rows, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.drafting.backlog import Backlog
from talkahead.drafting.draft_chain import DraftChain, num_right, spoken
from talkahead.drafting.draft_decoder import DraftDecoder, PositionTable, feed
from talkahead.drafting.native_chain import ChainTables, NativeChain, native_decoders
from talkahead.speculation.contracts import Accepted, Context, DraftCalls, Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape


class DraftLmDrafter:
    """Draws a chain of `length` tokens from the draft model.

    Its KV holds the prompt and what was said. Drafted tokens go into it as they are drawn, except for the
    last, which nothing follows; afterwards it is cut back to what was accepted. What was said meanwhile by
    steps without this drafter is remembered, and fed when it is asked again.

    Args:
        decoder: of the draft model, with as many slots as the target; its positions are the target's and
            `length` more.
        embeddings: of the draft model, [V, D].
        returns_probs: see `DraftChain`.
    """

    sees_prompt = False

    def __init__(
        self, decoder: DraftDecoder, embeddings: Tensor, length: int = 3, *, returns_probs: bool = True
    ) -> None:
        slots, device = decoder.num_slots + decoder.spare_slots, decoder.device
        self.length = length
        self._decoder = decoder
        self._embeddings = embeddings.to(device, decoder.dtype)
        self._returns_probs = returns_probs
        positions = decoder.max_positions + decoder.max_nodes
        self._said = PositionTable(torch.zeros((slots, positions), dtype=torch.int64, device=device))
        self._num_prompt = torch.zeros(slots, dtype=torch.int64, device=device)
        self._fed = torch.zeros((slots, length - 1), dtype=torch.int64, device=device)
        # The root, and the last drafted token where all were said: nothing was drawn after it.
        self._backlog = Backlog(slots, usual=2)
        self._native = self._native_chain(native_decoders([decoder]))

    def _native_chain(self, decoders: list[NativeDecoder]) -> NativeChain | None:
        if not decoders:
            return None
        tables = ChainTables(self._said.values, self._fed, self._num_prompt)
        embeddings = self._embeddings.contiguous()
        return NativeChain(
            decoders, self.length, tables, embeddings=embeddings, returns_probs=self._returns_probs
        )

    def propose(self, context: Context) -> TokenTree:
        return self.propose_in_torch(context) if self._native is None else self._native.propose(context)

    def propose_in_torch(self, context: Context) -> TokenTree:
        """What `propose` does, with any decoder."""
        rows = context.rows
        prompts = rows.take(self._num_prompt)
        self._said.put(rows, context.positions[:, None], context.roots_alone.ids)
        drafted = DraftChain(
            context, returns_probs=self._returns_probs and context.draft_request.returns_probs
        )
        logits = feed(
            self._decoder,
            rows,
            prompts + context.positions + 1,
            lambda places: self._embedded(self._said.at(rows, places - prompts[:, None])),
            most=self._backlog.most(rows),
        )
        one = torch.ones_like(prompts)
        for depth in range(context.draft_request.length(self.length) - 1):
            token = drafted.draw(logits)
            self._fed[rows.slots, depth] = token[:, 0]
            logits = self._decoder.extend(self._embedded(token), one, rows).logits[:, 0]
        drafted.draw(logits)
        return drafted.tree

    def _embedded(self, tokens: Tensor) -> Tensor:
        return functional.embedding(tokens, self._embeddings)

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        observe = self.observe_in_torch if self._native is None else self._native.observe
        observe(tree, scored, accepted, context)

    def observe_in_torch(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        """What `observe` does, with any decoders."""
        rows, said = context.rows, spoken(tree, accepted)
        places = context.positions[:, None] + torch.arange(said.shape[1], device=said.device)
        self._said.put(rows, places, said)
        right = num_right(rows.take(self._fed), said, accepted.counts - 1)
        known = rows.take(self._num_prompt) + context.positions + 1 + right
        self._decoder.keep(torch.minimum(self._decoder.lengths(rows), known), rows)
        self.replayed(tree.shape, rows)

    def calls(self, context: Context) -> DraftCalls | None:
        return None if self._native is None else self._native.calls(context)

    def can_replay(self, rows: Rows) -> bool:
        return self._native is None and self._backlog.is_usual(rows)

    def replayed(self, shape: TreeShape, rows: Rows) -> None:
        if shape.is_root_alone:
            self._backlog.missed(rows, tokens=1)
        else:
            self._backlog.fed(rows)

    def admit(
        self, slots: list[int], prompts: Tensor, lengths: list[int], hidden: Tensor | None = None
    ) -> None:
        self._decoder.prefill(slots, prompts, lengths)
        self._backlog.admitted(slots)
        self._num_prompt[slots] = torch.tensor(lengths, device=self._num_prompt.device)

    def release(self, slot: int) -> None:
        self._decoder.release(slot)
