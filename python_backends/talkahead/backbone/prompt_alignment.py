"""Which row of its prompt each position of a slot speaks: the one that a head trained to tell scores highest.

Shapes: R slots, S running rows, N nodes, M nodes of a path, d head size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from talkahead.generation_config import AlignmentHead
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows


class PromptAlignment:
    """Kept beside keys and values, and moved with them.

    Attributes:
        prompts: int64 [R], rows of each slot's prompt.
        rows: int32 [R, positions], the row of its prompt that each position scores highest.
    """

    def __init__(self, head: AlignmentHead, num_slots: int, num_positions: int, device: torch.device) -> None:
        self.head = head
        self.prompts = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.rows = torch.zeros((num_slots, num_positions), dtype=torch.int32, device=device)
        self._here: npt.NDArray[np.int32] | None = self.rows.numpy() if self.rows.is_cpu else None
        """The same memory, which numpy slices at a tenth of what it costs torch."""

    def read(self, slot: int, first: int, beyond: int) -> npt.NDArray[np.int32]:
        """Of the slot's positions from `first` to `beyond`; a copy on the host."""
        if self._here is not None:
            return self._here[slot, first:beyond].copy()
        read: npt.NDArray[np.int32] = self.rows[slot, first:beyond].cpu().numpy()
        return read

    def look(self, queries: Tensor, keys: Tensor, slots: Tensor, positions: Tensor) -> None:
        """Notes what the head's queries [S, N, d], at their positions [S, N], make of the keys of their slots
        [S], which are [S, span, d]."""
        scores = queries @ keys.transpose(1, 2).to(queries.dtype)  # [S, N, span]
        is_behind = torch.arange(keys.shape[1], device=keys.device) >= self.prompts[slots, None]
        highest = scores.masked_fill_(is_behind[:, None], -torch.inf).argmax(-1)
        self.rows[slots[:, None], positions] = highest.to(torch.int32)

    def compact(self, lengths: Tensor, accepted: Accepted, rows: Rows) -> None:
        """Brings each row's accepted nodes, behind `lengths` [R] in tree order, next to each other."""
        steps = torch.arange(accepted.path.shape[1], device=lengths.device)
        nodes = torch.where(steps < accepted.counts[:, None], accepted.path, steps)
        slots, behind = rows.slots[:, None], lengths[rows.slots][:, None]
        self.rows[slots, behind + steps] = self.rows[slots, behind + nodes]
