"""The trees that are worth their nodes with given heads, counted on what the talker says by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead.drafting import draft_files
from talkahead.errors import ArtifactMismatch
from talkahead.speculation.rank_paths import RankPaths, RankTree

NAME = draft_files.TREES


@dataclass(frozen=True)
class CalibratedTree:
    """One tree of `nodes` nodes, root included, and the tokens that a step of it committed where counted."""

    nodes: int
    committed_per_step: float
    tree: RankTree


@dataclass(frozen=True)
class CalibratedTrees:
    """Trees for one set of heads, smallest first.

    Args:
        draft: hash of the heads' weights.
        positions: that ranks were counted on.
    """

    draft: str
    positions: int
    trees: tuple[CalibratedTree, ...]

    @classmethod
    def of(cls, draft: str, paths: RankPaths, sizes: Sequence[int]) -> Self:
        trees = [paths.best_tree(nodes) for nodes in sorted(sizes)]
        return cls(
            draft,
            paths.total,
            tuple(CalibratedTree(len(one.shape), paths.committed_per_step(one), one) for one in trees),
        )

    def within(self, nodes: int) -> RankTree:
        """The largest tree of at most so many nodes; the root alone when all are larger."""
        fitting = [one.tree for one in self.trees if one.nodes <= nodes]
        return fitting[-1] if fitting else RankTree(())

    def save(self, folder: Path) -> None:
        trees = [
            {
                "nodes": one.nodes,
                "committed_per_step": round(one.committed_per_step, 4),
                "paths": one.tree.paths,
            }
            for one in self.trees
        ]
        text = {"draft": self.draft, "positions": self.positions, "trees": trees}
        (folder / NAME).write_text(json.dumps(text) + "\n")

    @classmethod
    def read(cls, folder: Path, draft: str) -> Self:
        """Raises ArtifactMismatch when there are none, or they were counted for other heads."""
        path = folder / NAME
        remedy = "make them with: python -m build_engines calibrate"
        if not path.exists():
            raise ArtifactMismatch(f"{path} is missing; {remedy}")
        raw = json.loads(path.read_text())
        if raw["draft"] != draft:
            raise ArtifactMismatch(f"the trees in {path} were counted for other heads; {remedy}")
        trees = tuple(
            CalibratedTree(one["nodes"], one["committed_per_step"], RankTree.from_lists(one["paths"]))
            for one in raw["trees"]
        )
        return cls(raw["draft"], raw["positions"], trees)
