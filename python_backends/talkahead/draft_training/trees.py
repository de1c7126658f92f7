"""The trees that are worth their nodes with given heads, counted on what the talker says by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from talkahead.config import RequestOptions
from talkahead.draft_training.accepted_paths import count_accepted
from talkahead.draft_training.draft_ranks import count_ranks
from talkahead.draft_training.own_speech import OwnSpeech, Utterance
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.manifest import sha256

NODES = (2, 3, 4, 6, 8, 16, 32, 64, 96, 128)
"""Of each tree, root included."""
TOLERANCE = 3
_WIDE = 1.5
"""Nodes that are tried with a tolerance, for each of the largest tree: the most frequent ones of one draw."""


def calibrate_trees(
    folder: Path,
    heads: DraftHeads,
    spoken: Sequence[Utterance],
    tried: OwnSpeech,
    sizes: Sequence[int],
    sampling: RequestOptions,
    eos: int,
) -> CalibratedTrees:
    """For one draw by the ranks of what was said, for a tolerance by what it would accept of a wide tree.

    Args:
        folder: of the heads.
        spoken: plainly, with `sampling`.
        tried: texts to count what a tolerance accepts.
    """
    paths = count_ranks(heads, spoken, sampling)
    wide = paths.best_tree(round(_WIDE * max(sizes)))
    accepted = count_accepted(heads, tried, wide, TOLERANCE, eos)
    return CalibratedTrees.of(sha256(folder / WEIGHTS), paths, sizes, {TOLERANCE: accepted})
