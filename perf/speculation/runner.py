"""Speaks sentences offline with any method: the served step over a pool that is always full.

Shapes: P prompt rows, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import torch
from talkahead.backbone.backbone import Backbone
from talkahead.backbone.llama import load_llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.reach_choice import settle_reach
from talkahead.config import RequestOptions
from talkahead.draft_training.own_speech import Utterance, speak
from talkahead.drafting.draft_artifact import load_drafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.drafters import DRAFTERS
from talkahead.drafting.group_artifact import load_groups
from talkahead.engine.decode_step import DecodeStep
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.verifiers import VERIFIERS
from torch import Tensor

from instruments.material import Sentence
from instruments.prompts import sentence_prompts
from perf.speculation.accept_all import AcceptAllVerifier
from perf.speculation.installation import Installation
from perf.speculation.methods import ACCEPT_ALL, Method, Talker

MAX_FRAMES = 700
"""14 s: a sentence that has not ended by then has gone astray."""

MakeStep = Callable[[Backbone, Drafter, Verifier], DecodeStep]


@dataclass(frozen=True)
class Loop:
    """What decodes with one method."""

    decoder: NativeDecoder
    drafter: Drafter
    verifier: Verifier


@dataclass(frozen=True)
class Runner:
    """Sentences, and how they are sampled.

    Args:
        sentences: the n-th is spoken with `seed` + n.
        precision: of products.
    """

    found: Installation
    sentences: tuple[Sentence, ...]
    sampling: RequestOptions
    seed: int
    precision: torch.dtype

    @cached_property
    def prompts(self) -> dict[Talker, list[Tensor]]:
        """Of each talker that is there, [P, D] each."""
        return {
            talker: sentence_prompts(TextEncoder.load(self.found.encoder(talker)), self.sentences)
            for talker in self.found.repositories
        }

    @cached_property
    def embeddings(self) -> Tensor:
        """The shipped talker's, [V, D]."""
        return load_llama(self.found.talker(Talker.SHIPPED))[1]["model.embed_tokens.weight"]

    def loop(self, method: Method, slots: int) -> Loop:
        positions = max(map(len, self.prompts[method.talker])) + MAX_FRAMES
        pool = DraftPool.serving(slots, positions)
        config, state = load_llama(self.found.talker(method.talker))
        decoder = NativeDecoder(
            config,
            state,
            num_slots=slots,
            max_positions=positions,
            max_nodes=self._nodes(method),
            precision=self.precision,
        )
        settle_reach(decoder)
        return Loop(decoder, self._drafter(method, pool), self._verifier(method, decoder.eos))

    def _drafter(self, method: Method, pool: DraftPool) -> Drafter:
        if method.is_plain:
            return NullDrafter()
        options = DraftOptions(self._nodes(method), method.returns_probs, method.trials)
        return load_drafter(self.found.draft(method), self.found.talker(method.talker), pool, options)

    def _nodes(self, method: Method) -> int:
        """Of a draft, root included: as many as the method says, or else as a request gets unasked."""
        if method.is_plain:
            return 1
        if method.draft_length is not None:
            return method.draft_length + 1
        return method.nodes or DRAFTERS[method.drafter].sizes(self.found.draft(method)).default

    def _verifier(self, method: Method, eos: int) -> Verifier:
        if method.verifier == ACCEPT_ALL:
            return AcceptAllVerifier()
        folder, talker = self.found.groups, self.found.talker(Talker.SHIPPED)
        groups = _groups(folder, talker) if "similarity" in method.options else {}
        options = VerifierOptions.from_parameters(method.verifier_options)
        return VERIFIERS[method.verifier].kind.of(options, TargetTokens(eos, groups))

    def speak(
        self, loop: Loop, method: Method, span: range, seed: int, make_step: MakeStep = DecodeStep
    ) -> list[Utterance]:
        """The sentences of a span, each with its own seed, wherever the span begins."""
        prompts = self.prompts[method.talker][span.start : span.stop]
        return speak(
            loop.decoder,
            loop.drafter,
            loop.verifier,
            prompts,
            self.sampling,
            seed + span.start,
            make_step,
        )


@cache
def _groups(folder: Path, talker: Path) -> dict[float, SimilarityGroups]:
    return load_groups(folder, talker)
