"""What the engine needs of an autoregressive model whose streams live in slots.

Shapes: B prompts of at most P rows, S running slots, N nodes, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from talkahead.speculation.contracts import Accepted, Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree, TreeShape


class Backbone(Protocol):
    """Scores trees: `NativeDecoder` or `SlotDecoder` when serving; tests use one with known probabilities."""

    @property
    def num_slots(self) -> int: ...

    @property
    def max_positions(self) -> int:
        """Prompt rows and frames that a slot holds."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def hidden_size(self) -> int: ...

    @property
    def eos(self) -> int: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    def prefill(
        self, slots: list[int], prompts: Tensor, lengths: list[int], *, all_hidden: bool = False
    ) -> Scored:
        """Fill slots with prompts [B, P, D], score what follows each: logits [B, 1, V], hidden [B, 1, D]; or
        hidden [B, P, D] of all rows, where they are wanted."""

    def score(self, tree: TokenTree, rows: Rows) -> Scored:
        """Score every node of the rows' trees, leaving their KV as scratch."""

    def score_mixed(self, trees: Sequence[TokenTree], rows: Rows) -> list[Scored]:
        """`score` of trees of several shapes, in one forward: the first ones are of the first rows."""

    def commit(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> None:
        """Keep the KV of the accepted nodes."""

    def aligned(self, slot: int, first: int, beyond: int) -> npt.NDArray[np.int32] | None:
        """The rows of its prompt that a slot's positions from `first` to `beyond` speak; None where the model
        has no head that tells."""

    def release(self, slot: int) -> None: ...


@runtime_checkable
class PartReader(Protocol):
    """A backbone that reads a prompt in parts, with steps of others between, and says the same."""

    def read_on(self, slot: int, rows: Tensor, before: int) -> Scored:
        """Rows [P, D] of a prompt after those `before` that its slot holds: logits [1, 1, V] of what follows
        the last, hidden [1, P, D] of all."""
