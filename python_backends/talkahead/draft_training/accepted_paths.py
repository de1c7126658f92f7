"""Which nodes of a tree of draft heads a tolerance accepts, wherever the talker is in what it says."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from talkahead.draft_training.own_speech import OwnSpeech
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.heads_kind import heads_drafter
from talkahead.drafting.rank_paths import AcceptedPaths, RankTree
from talkahead.speculation.contracts import Accepted, Context, Preserves, Scored
from talkahead.speculation.longest_path import among_draws, draws_of, reached
from talkahead.speculation.token_tree import TokenTree

TOLERANCE = 3
"""Draws that trees are counted for beside one."""
WIDE = 1.5
"""Nodes that are tried with it, for each of the largest tree: the most frequent ones of one draw."""


class _Watcher:
    """Notes what a tolerance would accept, and accepts nothing: what is said is plain decoding's.

    So every place of it is counted, as for the ranks of one draw.
    """

    preserves = Preserves.TOKENS
    history_frames = 0

    def __init__(self, tolerance: int, eos: int) -> None:
        self.trials = tolerance
        self._eos = eos
        self.seen: list[Tensor] = []

    def accept(self, tree: TokenTree, scored: Scored, context: Context) -> Accepted:
        draws = draws_of(tree, scored, context, self.trials)
        self.seen.append(reached(tree, among_draws(tree, draws), self._eos)[:, 1:])
        rows = torch.zeros((tree.num_rows, 1), dtype=torch.int64, device=draws.tokens.device)
        return Accepted(rows, rows[:, 0] + 1, draws.tokens[:, 0, :1].contiguous())

    def call(self, tree: TokenTree, scored: Scored, context: Context) -> None:
        """None: what it notes, it notes in Python."""
        return None


def count_accepted(
    heads: DraftHeads, own_speech: OwnSpeech, tree: RankTree, tolerance: int, eos: int
) -> AcceptedPaths:
    """What `tolerance` accepts of this tree, which is best wide."""
    tree = tree.by_depth
    watcher = _Watcher(tolerance, eos)
    own_speech.drafted(heads_drafter(heads, tree, own_speech.pool), len(tree.shape), watcher)
    return AcceptedPaths(tree, np.asarray(torch.cat(watcher.seen).cpu()))
