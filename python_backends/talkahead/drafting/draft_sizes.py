"""How much a drafter can propose, read from its folder without loading a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from talkahead.drafting.draft_files import CONFIG, TREES, read_json
from talkahead.errors import ArtifactMismatch

LONGEST_CHAIN = 8
"""Tokens of a chain that nothing else limits."""
_USUAL_CHAIN, _USUAL_TREE = 3, 32


@dataclass(frozen=True)
class DraftSizes:
    """What one drafter of a server can propose.

    Args:
        nodes: of its trees, root included, ascending; of a chain, its length and one.
        default: the most that it proposes where a request says nothing; one of `nodes`.
    """

    nodes: tuple[int, ...]
    default: int

    @property
    def usual(self) -> tuple[int, ...]:
        """Those that a request gets unasked."""
        return tuple(size for size in self.nodes if size <= self.default)


def tree_sizes(folder: Path) -> DraftSizes:
    """Of calibrated trees."""
    nodes = tuple(sorted({int(one["nodes"]) for one in read_json(folder / TREES)["trees"]} - {1}))
    if not nodes:
        raise ArtifactMismatch(
            f"{folder / TREES} holds no tree; make some with: python -m build_engines calibrate"
        )
    usual = [size for size in nodes if size <= _USUAL_TREE]
    return DraftSizes(nodes, usual[-1] if usual else nodes[0])


def cascade_sizes(folder: Path) -> DraftSizes:
    """Of a chain as long as there are modules."""
    longest = int(read_json(folder / CONFIG)["num_modules"])
    return chain_sizes(longest, longest)


def open_sizes(folder: Path) -> DraftSizes:
    """Of a chain whose drafter goes on as long as it is asked to."""
    return chain_sizes(LONGEST_CHAIN, _USUAL_CHAIN)


def chain_sizes(longest: int, usual: int) -> DraftSizes:
    """Of so many tokens at most, and unasked."""
    return DraftSizes(tuple(range(2, longest + 2)), usual + 1)
