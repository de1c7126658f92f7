"""Accept or refuse a draft so that what is spoken follows the target's distribution.

After Leviathan et al. 2023 and Chen et al. 2023; several children are tried in turn, each against what the
refused ones left (Miao et al. 2024). A child may be drawn with or without knowledge of its
siblings, or not at random at all: what counts is that `draft_probs` tells what it was drawn from.

Shapes: B rows, N nodes, V vocabulary, M labels.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.draws import Purpose, draw_keys, exponentials, uniforms
from talkahead.speculation.sampling import probabilities
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.token_tree import TokenTree


class _Coarsening(Protocol):
    """What is compared in place of tokens: each token wears one of M labels, drawn by fixed weights."""

    def masses(self, probs: Tensor) -> Tensor:
        """Probability of each label, [B, M], from those of tokens, [B, V]."""

    def label(self, tokens: Tensor, chances: Tensor) -> Tensor:
        """A label of each token, int64 [B], drawn with numbers in (0, 1), [B]."""

    def token_weights(self, probs: Tensor, left: Tensor) -> Tensor:
        """What each token weighs, [B, V], when a label is drawn in proportion to `left` [B, M], then a token
        among those that wear it as `probs` [B, V] has them."""


class _ByToken:
    """Nothing is coarsened: tokens are their own labels."""

    def masses(self, probs: Tensor) -> Tensor:
        return probs

    def label(self, tokens: Tensor, chances: Tensor) -> Tensor:
        return tokens

    def token_weights(self, probs: Tensor, left: Tensor) -> Tensor:
        return left


class Rejection:
    """One walk of all rows, depth by depth: see `Walk.ratio`."""

    def __init__(
        self,
        tree: TokenTree,
        scored: Scored,
        context: Context,
        groups: SimilarityGroups | None,
        bias: float,
    ) -> None:
        coarsening: _Coarsening = groups or _ByToken()
        self._tree = tree
        self._context = context
        self._coarsening = coarsening
        self._bias = bias
        self._target = probabilities(scored.logits, context.settings)  # [B, N, V]
        self._allowed = scored.logits > -torch.inf  # what no rule forbids, [B, N, V]
        self._lines = torch.arange(tree.num_rows, device=self._target.device)
        self._nodes = torch.zeros_like(self._lines)  # where each row is, [B]
        self._is_walking = torch.ones_like(self._lines, dtype=torch.bool)
        self._is_refused = ~self._is_walking
        self._left = coarsening.masses(self._target[:, 0])  # of the target's labels, [B, M]

    def run(self) -> Accepted:
        shape = self._tree.shape
        for depth, width in enumerate(shape.widths):
            self._descend(depth, width)
        own = shape.on(self._lines.device)
        paths = own.paths[self._nodes].clamp_min(0)
        counts = own.depth_row[self._nodes] + 1
        return Accepted(paths, counts, self._drawn_after(counts)[:, None])

    def _descend(self, depth: int, width: int) -> None:
        """Try the children of the rows that have come down to `depth`."""
        parents = self._nodes
        children = self._tree.shape.on(parents.device).child_table[parents]
        keys = draw_keys(self._context.keys, self._context.positions + depth + 1, Purpose.ACCEPT)
        if depth:
            masses = self._coarsening.masses(self._target[self._lines, parents])
            self._left = torch.where(self._is_walking[:, None], masses, self._left)
        allowed = self._allowed[self._lines, parents]
        for order in range(width):
            child = children[:, order]
            is_tried = self._is_walking & (self._nodes == parents) & (child >= 0)
            self._try(child.clamp_min(0), is_tried, allowed, keys, order)
        self._is_walking = self._is_walking & (self._nodes != parents)

    def _try(self, child: Tensor, is_tried: Tensor, allowed: Tensor, keys: Tensor, order: int) -> None:
        """Accept the child, or take what it might have been from what is left.

        A forbidden token, which a draft may have proposed, stands for no label: it is refused, however
        lenient the verifier, and what remains is drawn as if it wore one that the target never has.
        """
        tokens, draft = self._draft(child)
        draft = torch.where(allowed, draft, 0.0)
        chance, choice = (uniforms(keys, torch.tensor(2 * order + which)) for which in (0, 1))
        label = self._coarsening.label(tokens, choice)[:, None]
        proposed = self._coarsening.masses(draft)
        p, q = proposed.gather(1, label)[:, 0], self._left.gather(1, label)[:, 0]
        is_allowed = allowed.gather(1, tokens[:, None])[:, 0]
        is_accepted = is_tried & is_allowed & (chance * p < q + self._bias * p)
        is_refused = is_tried & ~is_accepted
        self._left = torch.where(is_refused[:, None], _without(self._left, proposed), self._left)
        self._nodes = torch.where(is_accepted, child, self._nodes)
        self._is_refused = torch.where(is_tried, is_refused, self._is_refused)

    def _draft(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """A node of each row: its token [B], and the distribution that it was drawn from [B, V]."""
        tokens = self._tree.ids[self._lines, nodes]
        if self._tree.draft_probs is not None:
            return tokens, self._tree.draft_probs[self._lines, nodes].to(self._target.dtype)
        return tokens, functional.one_hot(tokens, self._target.shape[2]).to(self._target.dtype)

    def _drawn_after(self, counts: Tensor) -> Tensor:
        """The token after each row's last node, int64 [B]: as in plain decoding, or from what is left."""
        target = self._target[self._lines, self._nodes]
        left = self._coarsening.token_weights(target, self._left)
        weights = torch.where(self._is_refused[:, None], left, target)
        places = self._context.positions + counts
        plain, residual = (
            draw_keys(self._context.keys, places, purpose) for purpose in (Purpose.TOKEN, Purpose.RESIDUAL)
        )
        keys = torch.where(self._is_refused, residual, plain)
        waits = exponentials(keys[:, None], torch.arange(target.shape[1], device=target.device))
        return torch.argmax(weights / waits, dim=-1)


def _without(left: Tensor, proposed: Tensor) -> Tensor:
    """(q - p)+ to a sum of 1, [B, M]. Rounding may leave nothing where q and p are the same: then q."""
    rest = (left - proposed).clamp_min(0)
    total = rest.sum(dim=1, keepdim=True)
    return torch.where(total > 0, rest / total, left)
