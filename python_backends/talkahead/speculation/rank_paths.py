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

from talkahead.speculation.token_tree import ROOT_PARENT, TreeShape

RankPath = tuple[int, ...]


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

    def best_tree(self, nodes: int) -> RankTree:
        """The tree of at most `nodes` nodes, root included, that was followed furthest on average.

        A path is never counted more often than its beginning, so the most frequent paths are a tree.
        """
        ordered = sorted(self.counts, key=lambda path: (-self.counts[path], len(path), path))
        return RankTree(tuple(sorted(ordered[: nodes - 1], key=lambda path: (len(path), path))))

    def committed_per_step(self, tree: RankTree) -> float:
        """Tokens committed by a step of `tree` that accepts what was said, root included."""
        return 1.0 + sum(self.counts[path] for path in tree.paths) / self.total


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
    def shape(self) -> TreeShape:
        places: dict[RankPath, int] = {(): 0, **_numbered(self.paths)}
        return TreeShape((ROOT_PARENT, *(places[path[:-1]] for path in self.paths)))

    def steps(self, ranks: npt.NDArray[np.int64]) -> int:
        """Steps of this tree over one utterance under `match`, which says what plain decoding says.

        Row t of `ranks` [tokens - 1, heads] holds the ranks of the tokens behind the t-th, a root perhaps.
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
