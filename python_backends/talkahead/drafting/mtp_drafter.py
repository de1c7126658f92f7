"""Drafts of multi-token prediction modules: a chain as long as there are modules, from the target's states.

After Llasa+ (Tian et al. 2025), with KV, and drafting anew in the same step after a refusal: its listing
drafts nothing in the step that follows one.

Shapes: S running rows, K modules, D hidden size, V vocabulary, T positions of a slot.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.arena import untouched_zeros
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.drafting.backlog import Backlog
from talkahead.drafting.draft_chain import DraftChain, num_right, spoken
from talkahead.drafting.draft_decoder import DraftDecoder, PositionTable, feed
from talkahead.drafting.mtp_modules import MtpModule, MtpModules
from talkahead.drafting.native_chain import ChainTables, NativeChain, NativeModule, native_decoders
from talkahead.speculation.contracts import Accepted, Context, DraftCalls, Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape


class MtpDrafter:
    """Module k holds KV at position i once it was fed there: with the state of module k - 1, and with frame
    i + k - 1 where modules see tokens. Near the root that frame may be a drafted one; when it was refused,
    the KV is cut back to before it, and the position fed again. Positions of a prompt that modules see come
    before those of frames, and hold the states of its rows but the last, which draws frame 0.

    Args:
        modules: as trained.
        decoders: each module's layer with the target's LM head, and as many slots as the target.
        embeddings: the target's, [V, D].
        length: of the draft; at most, and by default, one token of each module.
        returns_probs: see `DraftChain`.
    """

    def __init__(
        self,
        modules: MtpModules,
        decoders: Sequence[DraftDecoder],
        embeddings: Tensor,
        length: int | None = None,
        *,
        returns_probs: bool = True,
    ) -> None:
        first = decoders[0]
        self.length = len(modules) if length is None else length
        if not 1 <= self.length <= len(modules):
            raise ValueError(f"a draft of {length}: there are {len(modules)} modules")
        self.sees_prompt, self._sees_tokens = modules.sees_prompt, modules.sees_tokens
        self._modules = list(modules.to(first.device, first.dtype))[: self.length]
        self._decoders = list(decoders)[: self.length]
        table = embeddings.to(first.device, first.dtype) if self._sees_tokens else embeddings
        self._token_rows = [module.token_rows(table) for module in self._modules]
        """What each token adds to what a module is fed, [V, D]; of blind ones [D]."""
        self._returns_probs = returns_probs
        slots = first.num_slots + first.spare_slots
        shape = (slots, first.max_positions + first.max_nodes)
        self._said = PositionTable(torch.zeros(shape, dtype=torch.int64, device=first.device))
        self._states = [
            PositionTable(untouched_zeros((*shape, first.hidden_size), first.dtype, first.device))
            for _ in range(self.length)
        ]
        """What each module is fed: at position i the state of the one before it, the target's first."""
        self._num_prompt = torch.zeros(slots, dtype=torch.int64, device=first.device)
        self._drafted = torch.zeros((slots, self.length), dtype=torch.int64, device=first.device)
        # The longest path. What was accepted was drafted: less of it is cut back than a module is behind the
        # root.
        self._backlogs = [Backlog(slots, usual=self.length + 1) for _ in range(self.length)]
        self._native = self._native_chain(native_decoders(self._decoders))

    def _native_chain(self, decoders: list[NativeDecoder]) -> NativeChain | None:
        if not decoders:
            return None
        width = decoders[0].hidden_size
        modules = [
            NativeModule(
                norm=module.hidden_norm.weight.detach().contiguous(),
                projector=module.projector.weight.detach()[:, :width],
                token_rows=rows.detach().contiguous(),
                states=states.values,
            )
            for module, rows, states in zip(self._modules, self._token_rows, self._states, strict=True)
        ]
        tables = ChainTables(self._said.values, self._drafted, self._num_prompt)
        return NativeChain(decoders, self.length, tables, modules=modules, returns_probs=self._returns_probs)

    def propose(self, context: Context) -> TokenTree:
        return self.propose_in_torch(context) if self._native is None else self._native.propose(context)

    def propose_in_torch(self, context: Context) -> TokenTree:
        """What `propose` does, with any decoders."""
        rows, roots = context.rows, context.positions[:, None]
        self._said.put(rows, roots, context.roots_alone.ids)
        self._states[0].put(rows, roots, context.hidden[:, None])
        drafted = DraftChain(
            context, returns_probs=self._returns_probs and context.draft_request.returns_probs
        )
        for behind in range(context.draft_request.length(self.length)):
            token = drafted.draw(self._logits(behind, context))
            self._drafted[rows.slots, behind] = token[:, 0]
            if behind + 1 < self.length:
                self._said.put(rows, roots + behind + 1, token)
        return drafted.tree

    def _logits(self, behind: int, context: Context) -> Tensor:
        """Of one module [S, V], brought up to the root's position."""
        rows, module = context.rows, self._modules[behind]
        prompts = rows.take(self._num_prompt)

        def seen(places: Tensor, hidden: Tensor) -> None:
            if behind + 1 < self.length:
                self._states[behind + 1].put(rows, places - prompts[:, None], hidden)

        return feed(
            self._decoders[behind],
            rows,
            prompts + context.positions + 1,
            lambda places: self._inputs(module, behind, rows, places - prompts[:, None]),
            seen,
            most=self._backlogs[behind].most(rows),
        )

    def _inputs(self, module: MtpModule, behind: int, rows: Rows, places: Tensor) -> Tensor:
        added = self._token_rows[behind]
        if self._sees_tokens:
            added = functional.embedding(self._said.at(rows, places + behind), added)
        return module.joined(self._states[behind].at(rows, places), added)

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        observe = self.observe_in_torch if self._native is None else self._native.observe
        observe(tree, scored, accepted, context)

    def observe_in_torch(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        """What `observe` does, with any decoders."""
        rows, said = context.rows, spoken(tree, accepted)
        steps = torch.arange(said.shape[1], device=said.device)
        places = context.positions[:, None] + steps
        self._said.put(rows, places, said)
        lines = torch.arange(tree.num_rows, device=said.device)
        behind = scored.hidden[lines[:, None], accepted.path]
        self._states[0].put(rows, places, torch.cat([context.hidden[:, None], behind], dim=1))
        if self._sees_tokens:
            self._cut_back(context, num_right(rows.take(self._drafted), said, accepted.counts))
        self.replayed(tree.shape, rows)

    def calls(self, context: Context) -> DraftCalls | None:
        return None if self._native is None else self._native.calls(context)

    def can_replay(self, rows: Rows) -> bool:
        return self._native is None and all(backlog.is_usual(rows) for backlog in self._backlogs)

    def replayed(self, shape: TreeShape, rows: Rows) -> None:
        for module, backlog in enumerate(self._backlogs):
            if module < len(shape) - 1:
                backlog.fed(rows)
            else:
                backlog.missed(rows, shape.max_depth + 1, cut=module)

    def _cut_back(self, context: Context, right: Tensor) -> None:
        """Keep what was fed with frames that were said: `right` [S] of those after the root."""
        for behind, decoder in enumerate(self._decoders):
            known = (context.positions + 1 + right - behind).clamp_min(0)
            decoder.keep(torch.minimum(decoder.lengths(context.rows), known), context.rows)

    def admit(
        self, slots: list[int], prompts: Tensor, lengths: list[int], hidden: Tensor | None = None
    ) -> None:
        for slot in slots:
            self.release(slot)
        for backlog in self._backlogs:
            backlog.admitted(slots)
        if hidden is not None:
            self._see_prompts(slots, hidden, [length - 1 for length in lengths])

    def _see_prompts(self, slots: list[int], hidden: Tensor, counts: list[int]) -> None:
        """Feed `counts[b]` of the target's states [B, P, D] to the modules of each slot."""
        self._num_prompt[slots] = torch.tensor(counts, device=self._num_prompt.device)
        lines = [line for line, count in enumerate(counts) if count]
        if not lines:
            return
        own, lengths = [slots[line] for line in lines], [counts[line] for line in lines]
        states = hidden[lines, : max(lengths)].to(self._decoders[0].dtype)
        for module, added, decoder in zip(self._modules, self._token_rows, self._decoders, strict=True):
            states = decoder.prefill(own, module.joined(states, added), lengths, all_hidden=True).hidden

    def release(self, slot: int) -> None:
        for decoder in self._decoders:
            decoder.release(slot)
