"""Plain decoding: the root alone."""

from __future__ import annotations

from torch import Tensor

from talkahead.speculation.contracts import Accepted, Context, DraftCalls, Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape


class NullDrafter:
    """The off switch: proposes nothing beyond the root, keeps nothing."""

    sees_prompt = False

    def propose(self, context: Context) -> TokenTree:
        return context.roots_alone

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        return None

    def calls(self, context: Context) -> DraftCalls | None:
        """None for whoever inherits from it and says nothing of its own."""
        return DraftCalls(context.roots_alone) if type(self) is NullDrafter else None

    def can_replay(self, rows: Rows) -> bool:
        return True

    def replayed(self, shape: TreeShape, rows: Rows) -> None:
        return None

    def admit(
        self, slots: list[int], prompts: Tensor, lengths: list[int], hidden: Tensor | None = None
    ) -> None:
        return None

    def release(self, slot: int) -> None:
        return None
