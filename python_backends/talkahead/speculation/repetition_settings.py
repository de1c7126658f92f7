"""How much each row minds saying again what it has said.

Shapes: R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from talkahead.speculation.row_columns import RowColumns


@dataclass(frozen=True)
class RepetitionSettings(RowColumns):
    """Settings per row, [R] each.

    Args:
        penalty: float64, of every token said so far; 1 turns it off.
        win_len: int64, tokens that repetition-aware sampling looks back at; 0 turns it off.
        max_num_repeat: int64, found so often among these, a token is drawn again.
        num_prompt: int64, the talker's own tokens in the row's prompt, which have been said.
    """

    penalty: Tensor
    win_len: Tensor
    max_num_repeat: Tensor
    num_prompt: Tensor
