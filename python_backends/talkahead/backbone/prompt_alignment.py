"""Which row of its prompt each position of a slot speaks: the one that a head trained to tell scores highest,
of those that it sees.

Shapes: R slots, S running rows, N nodes, M nodes of a path, d head size.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from talkahead.generation_config import CLOSING_FRAMES, AlignmentHead, AlignmentWindow
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_PARENT


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

    @property
    def is_windowed(self) -> bool:
        """Whether the head sees but a part of the prompt."""
        return self.head.window is not None

    def read(self, slot: int, first: int, beyond: int) -> npt.NDArray[np.int32]:
        """Of the slot's positions from `first` to `beyond`; a copy on the host."""
        if self._here is not None:
            return self._here[slot, first:beyond].copy()
        read: npt.NDArray[np.int32] = self.rows[slot, first:beyond].cpu().numpy()
        return read

    def look(self, queries: Tensor, keys: Tensor, slots: Tensor, positions: Tensor) -> None:
        """Notes what the head's queries [S, N, d], at their positions [S, N], make of the keys of their slots
        [S], which are [S, span, d]; they see the whole prompt."""
        highest = self._scores(queries, keys, slots).argmax(-1)
        self.rows[slots[:, None], positions] = highest.to(torch.int32)

    def follow(
        self, queries: Tensor, keys: Tensor, slots: Tensor, lengths: Tensor, ancestors: Tensor
    ) -> Tensor | None:
        """As `look`, of the nodes of trees after the slots' lengths [S], each of which sees the window that
        its parent leaves it.

        Args:
            ancestors: bool [N, N] or [S, N, N], whom each node sees, itself among them.

        Returns:
            bool [S, N, span], the prompt's rows that a node does not see; None: it sees all.
        """
        positions = lengths[:, None] + torch.arange(queries.shape[1], device=keys.device)
        window = self.head.window
        if window is None:
            self.look(queries, keys, slots, positions)
            return None
        scores = self._scores(queries, keys, slots)
        near, has_lasted, here = self._walk(scores, slots, lengths, _parents(ancestors), window)
        self.rows[slots[:, None], positions] = here.to(torch.int32)
        place = torch.arange(keys.shape[1], device=keys.device) - near[..., None]  # [S, N, span]
        is_far = (place < torch.where(has_lasted, 1, -window.back)[..., None]) | (place > window.ahead)
        return is_far & ~self._is_after(keys, slots)

    def _walk(
        self, scores: Tensor, slots: Tensor, lengths: Tensor, parents: Tensor, window: AlignmentWindow
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rows that nodes' parents speak, whether they are to be left, and the nodes' own; each [S, N]."""
        stays, leaves = _moves(scores, -window.back, window.ahead), _moves(scores, 1, window.ahead)
        parents = parents.expand(scores.shape[:2])
        before = self.rows[slots, lengths - 1].long()[:, None].expand_as(parents)
        held_before = self._held(slots, lengths, window)[:, None].expand_as(parents)
        longest, last = window.longest or sys.maxsize, self.prompts[slots, None] - 1
        here, lasts = before, held_before
        for _ in range(scores.shape[1]):  # roots are right at once, and one level more each time
            near, held = _of_parents(parents, before, here), _of_parents(parents, held_before, lasts)
            has_lasted = (held >= longest) & (near < last)
            here = torch.where(has_lasted[..., None], leaves, stays).gather(2, near[..., None])[..., 0]
            lasts = torch.where(here == near, held + 1, 1)
        return near, has_lasted, here

    def _held(self, slots: Tensor, lengths: Tensor, window: AlignmentWindow) -> Tensor:
        """For how many frames slots have spoken the row that they speak, int64 [S], at most the longest."""
        positions = lengths[:, None] - torch.arange(1, window.longest + 1, device=slots.device)
        same = self.rows[slots[:, None], positions.clamp_min(0)] == self.rows[slots, lengths - 1][:, None]
        return (same & (positions >= self.prompts[slots, None] - 1)).cumprod(1).sum(1)

    def has_ended(self, slots: Tensor, lengths: Tensor, ancestors: Tensor) -> Tensor | None:
        """bool [S, N], of the nodes that `follow` has seen: whose speech is over; None: unknown."""
        window = self.head.window
        if window is None or not window.closing:
            return None
        first = self.prompts[slots] - 1  # the position that draws the first frame
        nodes = torch.arange(ancestors.shape[-1], device=slots.device)
        closing = self._is_closing(slots[:, None], lengths[:, None] + nodes, window)
        parents = _parents(ancestors).expand(closing.shape)
        over = above = closing
        for frames in range(1, CLOSING_FRAMES + 1):
            position = lengths - frames
            past = self._is_closing(slots, position, window) & (position >= first)
            above = _of_parents(parents, past[:, None].expand_as(parents), above)
            over = over & above
        return over

    def _is_closing(self, slots: Tensor, positions: Tensor, window: AlignmentWindow) -> Tensor:
        """Whether positions of slots speak what closes their prompts."""
        return self.rows[slots, positions] >= self.prompts[slots] - window.closing

    def _scores(self, queries: Tensor, keys: Tensor, slots: Tensor) -> Tensor:
        """[S, N, span], of what is not of the prompt -infinity."""
        scores = queries @ keys.transpose(1, 2).to(queries.dtype)
        return scores.masked_fill_(self._is_after(keys, slots), -torch.inf)

    def _is_after(self, keys: Tensor, slots: Tensor) -> Tensor:
        """bool [S, 1, span], whether a position lies after its slot's prompt."""
        return torch.arange(keys.shape[1], device=keys.device) >= self.prompts[slots, None, None]

    def compact(self, lengths: Tensor, accepted: Accepted, rows: Rows) -> None:
        """Brings each row's accepted nodes, after `lengths` [R] in tree order, next to each other."""
        steps = torch.arange(accepted.path.shape[1], device=lengths.device)
        nodes = torch.where(steps < accepted.counts[:, None], accepted.path, steps)
        slots, after = rows.slots[:, None], lengths[rows.slots][:, None]
        self.rows[slots, after + steps] = self.rows[slots, after + nodes]


def _parents(ancestors: Tensor) -> Tensor:
    """int64 [..., N] of bool [..., N, N]: the last of those above each node, or ROOT_PARENT."""
    nodes = torch.arange(ancestors.shape[-1], device=ancestors.device)
    return torch.where(ancestors.tril(-1), nodes, ROOT_PARENT).amax(-1)


def _of_parents(parents: Tensor, of_past: Tensor, of_nodes: Tensor) -> Tensor:
    """What nodes [S, N] inherit: of their parents, and where these are of the past, of that."""
    return torch.where(parents == ROOT_PARENT, of_past, of_nodes.gather(1, parents.clamp_min(0)))


def _moves(scores: Tensor, first: int, last: int) -> Tensor:
    """int64 [S, N, span]: the row from `first` to `last` after each one that a node scores highest."""
    span = scores.shape[2]
    padded = functional.pad(scores, (-first, last), value=-torch.inf)  # less than none: cut off
    best = padded.unfold(2, last - first + 1, 1).argmax(-1)
    return (best + torch.arange(first, span + first, device=scores.device)).clamp(0, span - 1)
