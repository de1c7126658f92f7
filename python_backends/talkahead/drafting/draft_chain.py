"""A chain of tokens that a drafter draws one after the other, each from its own distribution.

Shapes: S running rows, N nodes, root included, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from talkahead.speculation.contracts import Accepted, Context
from talkahead.speculation.sampling import draw, probabilities
from talkahead.speculation.token_tree import TokenTree, chain_of


class DraftChain:
    """Collects the nodes of one step's chains.

    A token is drawn with the noise that the target will draw with at its position (Gumbel coupling): what is
    likely to both is often the same. `draft_probs` still is what it was drawn from.

    Args:
        returns_probs: whether verifiers need the distributions; `match`, `tolerance` and `topk` do not.
    """

    def __init__(self, context: Context, *, returns_probs: bool) -> None:
        self._context = context
        self._returns_probs = returns_probs
        self._tokens = [context.roots_alone.ids]
        self._probs: list[Tensor] = []

    def draw(self, logits: Tensor) -> Tensor:
        """The next node of each row, int64 [S, 1], from logits [S, V]."""
        context, after = self._context, logits[:, None]
        places = context.positions[:, None] + len(self._tokens)
        drawn = draw(after, context.settings, context.keys, places)
        if self._returns_probs:
            self._probs.append(probabilities(after, context.settings))
        self._tokens.append(drawn)
        return drawn

    @property
    def tree(self) -> TokenTree:
        tokens = torch.cat(self._tokens, dim=1)[..., None]
        shape = chain_of(len(self._tokens) - 1)
        if not self._probs:
            return TokenTree(tokens, shape)
        unused = torch.zeros_like(self._probs[0])
        return TokenTree(tokens, shape, torch.cat([unused, *self._probs], dim=1))


def spoken(tree: TokenTree, accepted: Accepted) -> Tensor:
    """The tokens of the accepted path and the next root, int64 [S, M + 1]; anything beyond counts + 1."""
    tokens = torch.cat([tree.ids.gather(1, accepted.path), accepted.next_roots], dim=1)
    return tokens.scatter_(1, accepted.counts[:, None], accepted.next_roots)


def num_right(drafted: Tensor, said: Tensor, counts: Tensor) -> Tensor:
    """How many of the drafted tokens [S, K] were said, one after the other, int64 [S].

    Args:
        said: from `spoken`, the root first.
        counts: of the accepted nodes; `counts` tokens after the root are known.
    """
    width = min(drafted.shape[1], said.shape[1] - 1)
    is_right = drafted[:, :width] == said[:, 1 : width + 1]
    is_known = torch.arange(width, device=counts.device) < counts[:, None]
    return (is_right & is_known).cumprod(dim=1).sum(dim=1)
