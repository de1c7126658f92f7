"""Which slots the rows of a step are.

Shapes: R slots, S rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_NONE: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Rows:
    """The slots of a batch's rows, in their order. What is kept by slot stays where it is: rows look it up.

    Args:
        slots: int64 [S], all different.
        view: the same slots, where they are neighbours in rising order; else None.
        listed: the same slots on the host, where it knows them; else none.
    """

    slots: Tensor
    view: slice | None = None
    listed: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)

    @classmethod
    def of(cls, slots: Sequence[int], device: torch.device | str = "cpu") -> Self:
        first, beyond = slots[0], slots[0] + len(slots)
        is_run = list(slots) == list(range(first, beyond))
        return cls(
            torch.tensor(slots, device=device), slice(first, beyond) if is_run else None, np.array(slots)
        )

    def take(self, column: Tensor) -> Tensor:
        """[S, ...] of what is kept by slot [R, ...]: a view of neighbours, else a copy."""
        return column.index_select(0, self.slots) if self.view is None else column[self.view]

    def put(self, column: Tensor, taken: Tensor) -> None:
        """Write what became of `take(column)` back, unless it is a view and lies there already."""
        if self.view is None:
            column.index_copy_(0, self.slots, taken)
