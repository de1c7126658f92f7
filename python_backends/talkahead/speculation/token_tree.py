"""The tokens that a step scores at once: a tree whose root is drawn and not yet scored.

Shapes: B rows (streams of the batch), N nodes of a tree, C codebooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import torch
from torch import Tensor

ROOT_PARENT = -1


@dataclass(frozen=True)
class TreeShape:
    """Who is whose parent; the same for every row of a batch. Everything else derives from it.

    `parents[n] < n`, and `parents[0]` is ROOT_PARENT.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        assert self.parents and self.parents[0] == ROOT_PARENT, "node 0 is the root"
        assert all(0 <= parent < node for node, parent in enumerate(self.parents) if node), (
            "a parent comes before its children"
        )

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def is_root_alone(self) -> bool:
        return len(self.parents) == 1

    @cached_property
    def is_chain(self) -> bool:
        """True when each node is the only child of the one before: an accepted path is then a prefix."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root, [N]."""
        return _depths(self.parents)

    @cached_property
    def depth_row(self) -> Tensor:
        """`depths` as int64 [N]."""
        return _depth_row(self.parents)

    @cached_property
    def parent_row(self) -> Tensor:
        """`parents` as int64 [N]; the root is its own."""
        return _parent_row(self.parents)

    @cached_property
    def max_depth(self) -> int:
        return max(self.depths)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The nodes of each depth, root first."""
        depths = self.depths
        return tuple(
            tuple(node for node, depth in enumerate(depths) if depth == level)
            for level in range(self.max_depth + 1)
        )

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(child for child, parent in enumerate(self.parents) if parent == node)
            for node in range(len(self))
        )

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The most children that a node of each depth has, from the root on to the last but deepest."""
        children = self.children
        return tuple(max(len(children[node]) for node in level) for level in self.levels[:-1])

    @cached_property
    def child_table(self) -> Tensor:
        """int64 [N, max(widths)]: each node's children in order, then -1."""
        return _child_table(self.parents)

    @cached_property
    def ancestors(self) -> Tensor:
        """bool [N, N]: `ancestors[n, m]` when m is n or above n. It is the attention mask among nodes."""
        return _ancestors(self.parents)

    @cached_property
    def paths(self) -> Tensor:
        """int64 [N, max_depth + 1]: the nodes from the root to each node, then -1."""
        return _paths(self.parents)

    def on(self, device: torch.device) -> TreeTensors:
        """What derives from the parents, where a step computes: brought there once for all steps."""
        return _on(self.parents, device)


@dataclass(frozen=True)
class TreeTensors:
    """What derives from a shape's parents, on one device; see `TreeShape` for each."""

    depth_row: Tensor
    parent_row: Tensor
    child_table: Tensor
    ancestors: Tensor
    paths: Tensor


@cache  # graphs read them where they lie
def _on(parents: tuple[int, ...], device: torch.device) -> TreeTensors:
    derived = (_depth_row, _parent_row, _child_table, _ancestors, _paths)
    return TreeTensors(*(derive(parents).to(device) for derive in derived))


@lru_cache(maxsize=256)
def _depths(parents: tuple[int, ...]) -> tuple[int, ...]:
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent == ROOT_PARENT else depths[parent] + 1)
    return tuple(depths)


@lru_cache(maxsize=256)
def _depth_row(parents: tuple[int, ...]) -> Tensor:
    return torch.tensor(_depths(parents))


@lru_cache(maxsize=256)
def _parent_row(parents: tuple[int, ...]) -> Tensor:
    return torch.tensor(parents).clamp_min(0)


@lru_cache(maxsize=256)
def _ancestors(parents: tuple[int, ...]) -> Tensor:
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent != ROOT_PARENT:
            mask[node] |= mask[parent]
    return mask


@lru_cache(maxsize=256)
def _paths(parents: tuple[int, ...]) -> Tensor:
    depths = _depths(parents)
    paths = torch.full((len(parents), max(depths) + 1), -1, dtype=torch.int64)
    for node, parent in enumerate(parents):
        if parent != ROOT_PARENT:
            paths[node] = paths[parent]
        paths[node, depths[node]] = node
    return paths


@lru_cache(maxsize=256)
def _child_table(parents: tuple[int, ...]) -> Tensor:
    children = TreeShape(parents).children
    table = torch.full((len(parents), max(map(len, children))), -1, dtype=torch.int64)
    for node, own in enumerate(children):
        table[node, : len(own)] = torch.tensor(own, dtype=torch.int64)
    return table


ROOT_ALONE = TreeShape((ROOT_PARENT,))


@lru_cache(maxsize=256)
def chain_of(length: int) -> TreeShape:
    """The root and `length` nodes, one after the other."""
    return TreeShape(tuple(range(ROOT_PARENT, length)))


@dataclass(frozen=True)
class TokenTree:
    """One tree per row, all of one shape.

    Args:
        tokens: int64 [B, N, C]; node 0 is the root.
        shape: the parents.
        draft_probs: [B, N, V], the distribution that each node was drawn from (after temperature, top-k
            and top-p; the root's row is unused), or None when the draft is a point mass.
    """

    tokens: Tensor
    shape: TreeShape = ROOT_ALONE
    draft_probs: Tensor | None = None

    @cached_property
    def ids(self) -> Tensor:
        """int64 [B, N], a view of `tokens`: what decodes one code a node reads them here, and nowhere else.

        Raises ValueError where a node holds several.
        """
        codes = int(self.tokens.shape[2])
        if codes != 1:
            raise ValueError(f"a node of {codes} codes has no single id: this decodes one codebook")
        return self.tokens.squeeze(2)

    @property
    def num_rows(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def num_nodes(self) -> int:
        return len(self.shape)
