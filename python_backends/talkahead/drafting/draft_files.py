"""What lies beside a talker to draft with, read without loading a network.

`drafts/<drafter>/` holds weights, their description and, for heads, trees; `groups/` holds token groups.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from talkahead.errors import ArtifactMismatch
from talkahead.speculation.pairs import PAIRS, DraftSizes, Offer

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TREES = "trees.json"
ACCEPTANCE = "acceptance.json"
GROUPS = "groups.json"
LONGEST_CHAIN = 8
"""Tokens that `draft_lm` drafts at most."""
_USUAL_CHAIN = 3
_USUAL_TREE = 32


def draft_folder(talker: Path, drafter: str) -> Path:
    return talker / "drafts" / drafter


def group_folder(talker: Path) -> Path:
    return talker / "groups"


def read_offer(talker: Path) -> Offer:
    """What can be done with the talker in a folder; raises ArtifactMismatch for what cannot be read."""
    sizes: dict[str, DraftSizes] = {}
    for drafter, read in _SIZES.items():
        folder = draft_folder(talker, drafter)
        if (folder / CONFIG).exists():
            sizes[drafter] = read(folder)
    groups = group_folder(talker) / GROUPS
    similarities = tuple(one["similarity"] for one in _read(groups)["groups"]) if groups.exists() else ()
    return Offer(sizes, similarities)


def _tree_sizes(folder: Path) -> DraftSizes:
    nodes = tuple(sorted({int(one["nodes"]) for one in _read(folder / TREES)["trees"]} - {1}))
    if not nodes:
        raise ArtifactMismatch(
            f"{folder / TREES} holds no tree; make some with: python -m build_engines calibrate"
        )
    usual = [size for size in nodes if size <= _USUAL_TREE]
    return DraftSizes(nodes, usual[-1] if usual else nodes[0])


def _cascade_sizes(folder: Path) -> DraftSizes:
    longest = int(_read(folder / CONFIG)["num_modules"])
    return _chains(longest, longest)


def _chains(longest: int, usual: int) -> DraftSizes:
    return DraftSizes(tuple(range(2, longest + 2)), usual + 1)


_SIZES: Mapping[str, Callable[[Path], DraftSizes]] = {
    "heads": _tree_sizes,
    "mtp": _cascade_sizes,
    "draft_lm": lambda folder: _chains(LONGEST_CHAIN, _USUAL_CHAIN),
}
assert {"none", *_SIZES} == set(PAIRS)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ArtifactMismatch(
            f"{path} cannot be read ({error}); make it with: python -m build_engines calibrate"
        ) from error
    return content
