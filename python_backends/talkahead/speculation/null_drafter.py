"""Plain decoding: the root alone."""

from __future__ import annotations

from torch import Tensor

from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.token_tree import TokenTree


class NullDrafter:
    """The off switch: proposes nothing beyond the root, keeps nothing."""

    def propose(self, context: Context) -> TokenTree:
        return context.roots_alone

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        return None

    def admit(self, slots: list[int], prompts: Tensor, lengths: list[int]) -> None:
        return None

    def release(self, slot: int) -> None:
        return None
