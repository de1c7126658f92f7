"""The trees that are worth their nodes with given heads, counted on what the talker says by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from talkahead.drafting import draft_files
from talkahead.drafting.rank_paths import RankPaths, RankTree
from talkahead.errors import ArtifactMismatch

NAME = draft_files.TREES
_UNCOUNTED_SIZES = (2, 4, 8, 16, 32)


class Counted(Protocol):
    """What tells trees apart: `RankPaths` of one draw, `AcceptedPaths` of several."""

    @property
    def total(self) -> int: ...

    def best_tree(self, nodes: int) -> RankTree: ...

    def committed_per_step(self, tree: RankTree) -> float: ...


@dataclass(frozen=True)
class CalibratedTree:
    """One tree of `nodes` nodes, root included, and the tokens that a step of it committed where counted."""

    nodes: int
    committed_per_step: float
    tree: RankTree

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "committed_per_step": round(self.committed_per_step, 4),
            "paths": self.tree.paths,
        }


@dataclass(frozen=True)
class CalibratedTrees:
    """Trees for one set of heads, smallest first.

    Args:
        draft: hash of the heads' weights.
        positions: that ranks were counted on; 0: nothing was counted yet.
        trees: for verifiers that look at one draw (`match`), or at none.
        tolerant: for those that look at several, by how many.
    """

    draft: str
    positions: int
    trees: tuple[CalibratedTree, ...]
    tolerant: Mapping[int, tuple[CalibratedTree, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, draft: str, paths: Counted, sizes: Sequence[int], tolerant: Mapping[int, Counted] | None = None
    ) -> Self:
        """`tolerant`: what was accepted with more than one draw, by their number."""
        several = {trials: _best(counted, sizes) for trials, counted in (tolerant or {}).items()}
        return cls(draft, paths.total, _best(paths, sizes), several)

    @classmethod
    def uncounted(cls, draft: str, heads: int) -> Self:
        """What heads are served with until trees are calibrated."""
        return cls(draft, 0, _best(RankPaths.assumed(heads), _UNCOUNTED_SIZES))

    def of_trials(self, trials: int) -> tuple[CalibratedTree, ...]:
        """Those counted with as many draws, or else with the most that are fewer."""
        fewer = [counted for counted in self.tolerant if counted <= trials]
        return self.tolerant[max(fewer)] if fewer else self.trees

    def within(self, nodes: int, trials: int = 1) -> RankTree:
        """The largest tree of at most so many nodes; the root alone when all are larger."""
        fitting = [one.tree for one in self.of_trials(trials) if one.nodes <= nodes]
        return fitting[-1] if fitting else RankTree(())

    def save(self, folder: Path) -> None:
        text = {
            "draft": self.draft,
            "positions": self.positions,
            "trees": [one.to_json() for one in self.trees],
            "tolerant": {trials: [one.to_json() for one in own] for trials, own in self.tolerant.items()},
        }
        (folder / NAME).write_text(json.dumps(text) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, draft: str) -> Self:
        """Raises ArtifactMismatch when there are none, or they were counted for other heads.

        Files of before trees were counted for several draws lack those, and serve all verifiers alike.
        """
        path = folder / NAME
        remedy = "make them with: python -m build_engines calibrate"
        if not path.exists():
            raise ArtifactMismatch(f"{path} is missing; {remedy}")
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["draft"] != draft:
            raise ArtifactMismatch(f"the trees in {path} were counted for other heads; {remedy}")
        tolerant = {int(trials): _read(own) for trials, own in raw.get("tolerant", {}).items()}
        return cls(raw["draft"], raw["positions"], _read(raw["trees"]), tolerant)


def _best(counted: Counted, sizes: Sequence[int]) -> tuple[CalibratedTree, ...]:
    trees = [counted.best_tree(nodes) for nodes in sorted(sizes)]
    return tuple(CalibratedTree(len(one.shape), counted.committed_per_step(one), one) for one in trees)


def _read(trees: Iterable[Mapping[str, Any]]) -> tuple[CalibratedTree, ...]:
    return tuple(
        CalibratedTree(one["nodes"], one["committed_per_step"], RankTree.from_lists(one["paths"]))
        for one in trees
    )
