"""How far a draft is followed: really decoded, with `match`, on texts that it did not learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from talkahead.backbone.llama import Llama
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.draft_lm_kind import draft_lm_drafter
from talkahead.drafting.draft_pool import DraftOptions
from talkahead.drafting.heads_kind import heads_drafter
from talkahead.drafting.mtp_kind import mtp_drafter
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.speculation.contracts import Drafter

from instruments.draft_ranks import count_ranks
from instruments.own_speech import OwnSpeech, Utterance

_NODES = 32
"""Of a tree of heads, while they are trained."""
_CHAIN_NODES = 4
"""Of a draft model's chain, root included."""


def committed_per_step(utterances: Sequence[Utterance]) -> float:
    """Tokens of a step, root included; the first token of each utterance comes without one."""
    return sum(len(one.tokens) - 1 for one in utterances) / sum(one.steps for one in utterances)


class Acceptance:
    """Measures drafts of one talker while they are trained.

    Args:
        calibration: plain speech that trees of heads are counted on.
        held_out: texts that are decoded.
    """

    def __init__(self, talker: Llama, calibration: Sequence[Utterance], held_out: OwnSpeech) -> None:
        self._talker = talker
        self._calibration = calibration
        self._held_out = held_out

    @torch.inference_mode()
    def measure(self, network: DraftHeads | MtpModules | Llama) -> float:
        """Tokens committed per step: of heads with a tree of 32 nodes, of others with their longest chain."""
        return committed_per_step(self._held_out.drafted(self._drafter(network), _NODES))

    def _drafter(self, network: DraftHeads | MtpModules | Llama) -> Drafter:
        pool, options = self._held_out.pool, DraftOptions(tells_probs=False)
        if isinstance(network, DraftHeads):
            paths = count_ranks(network, self._calibration, self._held_out.sampling)
            return heads_drafter(network, paths.best_tree(_NODES), pool)
        if isinstance(network, MtpModules):
            return mtp_drafter(network, self._talker.state_dict(), pool, options)
        return draft_lm_drafter(network, pool, replace(options, nodes=_CHAIN_NODES))
