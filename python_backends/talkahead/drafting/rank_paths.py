"""Which draft tree is worth its nodes: counted on what the talker really said.

A rank path (r1, .., rd) stands for a node at depth d: the r1-th best token of the first head, then the r2-th
best of the second, and so on. How often what was said followed a path is what its node adds to a step.
Calibration after Medusa (Cai et al. 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from talkahead.speculation.token_tree import ROOT_PARENT, TreeShape

RankPath = tuple[int, ...]
_RAREST = 7
"""Halvings down to the rarest path of those that are assumed: the tree of 128 nodes."""


@dataclass(frozen=True)
class RankPaths:
    """How often each rank path was followed, of `total` positions."""

    counts: Counter[RankPath]
    total: int

    @classmethod
    def count(cls, ranks: npt.NDArray[np.int64], width: int) -> RankPaths:
        """From the ranks of what was said among each head's candidates, [positions, heads].

        A rank of `width` or more ends the path: no tree of `width` candidates a head holds that token.
        """
        counts: Counter[RankPath] = Counter()
        followed = (ranks < width).cumprod(axis=1).sum(axis=1)
        for row, length in zip(ranks.tolist(), followed.tolist(), strict=True):
            counts.update(tuple(row[:depth]) for depth in range(1, length + 1))
        return cls(counts, len(ranks))

    @classmethod
    def assumed(cls, heads: int) -> RankPaths:
        """Each rank half as often as the one before it: for heads that nothing was counted with."""
        counts: Counter[RankPath] = Counter()
        growing: list[tuple[RankPath, int]] = [((), _RAREST)]
        for path, left in growing:
            for rank in range(left if len(path) < heads else 0):
                counts[*path, rank] = 1 << (left - rank - 1)
                growing.append(((*path, rank), left - rank - 1))
        return cls(counts, 1 << _RAREST)

    def best_tree(self, nodes: int) -> RankTree:
        """The tree of at most `nodes` nodes, root included, that was followed furthest on average.

        A path is never counted more often than its beginning, so the most frequent paths are a tree.
        """
        ordered = sorted(self.counts, key=lambda path: (-self.counts[path], len(path), path))
        return RankTree(tuple(sorted(ordered[: nodes - 1], key=lambda path: (len(path), path))))

    def committed_per_step(self, tree: RankTree) -> float:
        """Tokens committed by a step of `tree` that accepts what was said, root included."""
        return 1.0 + sum(self.counts[path] for path in tree.paths) / self.total


@dataclass(frozen=True, eq=False)
class AcceptedPaths:
    """Which nodes of one wide tree a verifier accepted, with all above them: several siblings, perhaps.

    Args:
        tree: the nodes that were tried, the root aside.
        accepted: bool [positions, nodes], in the order of `tree`.
    """

    tree: RankTree
    accepted: npt.NDArray[np.bool_]

    @property
    def total(self) -> int:
        return len(self.accepted)

    def best_tree(self, nodes: int) -> RankTree:
        """A tree of at most `nodes` nodes, root included, whose longest accepted path is long on average.

        Node after node that adds the most to it, each after its parent.
        """
        chosen: list[RankPath] = []
        furthest = np.zeros(self.total, dtype=np.int64)
        depths = self._depths()
        while len(chosen) < nodes - 1:
            fitting = [path for path in depths if path not in chosen and path[:-1] in {(), *chosen}]
            if not fitting:
                break
            # The first of equal ones: the tree lies depth by depth, lower ranks in front.
            best = max(fitting, key=lambda path: int(np.maximum(furthest, depths[path]).sum()))
            chosen.append(best)
            furthest = np.maximum(furthest, depths[best])
        return RankTree(tuple(sorted(chosen, key=lambda path: (len(path), path))))

    def committed_per_step(self, tree: RankTree) -> float:
        """Tokens committed by a step of `tree`, root included."""
        depths = self._depths()
        furthest = np.max([np.zeros(self.total), *(depths[path] for path in tree.paths)], axis=0)
        return 1.0 + float(furthest.mean())

    def _depths(self) -> dict[RankPath, npt.NDArray[np.int64]]:
        """Of each node its depth where it was accepted, else 0, [positions]."""
        return {
            path: len(path) * column.astype(np.int64)
            for path, column in zip(self.tree.paths, self.accepted.T, strict=True)
        }


@dataclass(frozen=True, eq=False)
class TreeLevel:
    """The M nodes of one depth. Those of the depth above that have children are the growing ones.

    Args:
        width: the best tokens that are wanted after each growing node.
        parents: int64 [M], the place of each node's parent among the growing ones.
        ranks: int64 [M], of each node's token among the best after its parent, from 0.
        grown: int64, the nodes of this depth that have children: the next growing ones.
    """

    width: int
    parents: Tensor
    ranks: Tensor
    grown: Tensor

    def to(self, device: torch.device) -> TreeLevel:
        parents, ranks, grown = (one.to(device) for one in (self.parents, self.ranks, self.grown))
        return TreeLevel(self.width, parents, ranks, grown)


@dataclass(frozen=True)
class RankTree:
    """The nodes below the root, each as its rank path, parents before children."""

    paths: tuple[RankPath, ...]

    @classmethod
    def from_lists(cls, paths: Iterable[Sequence[int]]) -> RankTree:
        """From what a manifest holds: the paths as lists. Raises ValueError if they are no tree."""
        tree = cls(tuple(map(tuple, paths)))
        known: set[RankPath] = {()}
        for path in tree.paths:
            if path in known or path[:-1] not in known or min(path) < 0:
                raise ValueError(f"no tree: {list(path)} is there twice, precedes its parent or is below 0")
            known.add(path)
        return tree

    @property
    def by_depth(self) -> RankTree:
        """The same tree, depth by depth; children of a node lie side by side."""
        return RankTree(tuple(sorted(self.paths, key=lambda path: (len(path), path))))

    @property
    def levels(self) -> tuple[TreeLevel, ...]:
        """The nodes below the root, by depth, of a tree that lies depth by depth."""
        depths = range(1, 1 + max(map(len, self.paths), default=0))
        rows = [[path for path in self.paths if len(path) == depth] for depth in depths]
        parents = {path[:-1] for path in self.paths}
        growing: list[RankPath] = [()]
        levels = []
        for row in rows:
            grown = [place for place, path in enumerate(row) if path in parents]
            levels.append(
                TreeLevel(
                    width=1 + max(path[-1] for path in row),
                    parents=torch.tensor([growing.index(path[:-1]) for path in row]),
                    ranks=torch.tensor([path[-1] for path in row]),
                    grown=torch.tensor(grown, dtype=torch.int64),
                )
            )
            growing = [row[place] for place in grown]
        return tuple(levels)

    @property
    def shape(self) -> TreeShape:
        places: dict[RankPath, int] = {(): 0, **_numbered(self.paths)}
        return TreeShape((ROOT_PARENT, *(places[path[:-1]] for path in self.paths)))

    def steps(self, ranks: npt.NDArray[np.int64]) -> int:
        """Steps of this tree over one utterance under `match`, which says what plain decoding says.

        Row t of `ranks` [tokens - 1, heads] holds the ranks of the tokens after the t-th, a root perhaps.
        """
        known, steps, root = set(self.paths), 0, 0
        while root < len(ranks):
            depth = 0
            while depth < ranks.shape[1] and tuple(ranks[root, : depth + 1].tolist()) in known:
                depth += 1
            root += depth + 1
            steps += 1
        return steps


def _numbered(paths: Iterable[RankPath]) -> dict[RankPath, int]:
    return {path: node for node, path in enumerate(paths, 1)}
