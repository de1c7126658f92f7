"""How far a draft is followed: really decoded, with `match`, on texts that it did not learn from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.drafter_choice import (
    DraftOptions,
    DraftPool,
    draft_lm_drafter,
    heads_drafter,
    mtp_drafter,
)
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.speculation.contracts import Drafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.rank_paths import RankPaths
from torch import Tensor

from training.own_speech import RecordingDrafter, Utterance, speak
from training.trial_heads import CANDIDATES, ranks

_SLOTS = 16
_MAX_FRAMES = 500
_NODES = 32
"""Of a tree of heads, while they are trained."""


class OwnSpeech:
    """Texts that the talker speaks by itself, plainly or with a draft.

    Args:
        prompts: [P, D] each.
        seed: the n-th text is spoken with `seed` + n.
    """

    def __init__(self, talker: Llama, prompts: Sequence[Tensor], sampling: RequestOptions, seed: int) -> None:
        self._talker = talker
        self._prompts = prompts
        self._sampling = sampling
        self._seed = seed
        self._positions = max(map(len, prompts)) + _MAX_FRAMES

    @property
    def sampling(self) -> RequestOptions:
        return self._sampling

    @property
    def pool(self) -> DraftPool:
        return DraftPool(_SLOTS, self._positions)

    def plain(self) -> list[Utterance]:
        """With the hidden states that drew the tokens."""
        return self.drafted(RecordingDrafter(), nodes=1)

    def drafted(self, drafter: Drafter, nodes: int) -> list[Utterance]:
        decoder = NativeDecoder(
            self._talker.config,
            self._talker.state_dict(),
            num_slots=_SLOTS,
            max_positions=self._positions,
            max_nodes=nodes,
        )
        return speak(decoder, drafter, MatchVerifier(), self._prompts, self._sampling, self._seed)


def count_ranks(heads: DraftHeads, utterances: Sequence[Utterance], sampling: RequestOptions) -> RankPaths:
    """Which rank paths were followed by what was said, with `sampling`."""
    return RankPaths.count(ranks(heads, utterances, sampling).numpy(), CANDIDATES)


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
        return draft_lm_drafter(network, pool, options)
