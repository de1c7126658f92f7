"""Utterances with methods of their own in one pool, where they join, are parked, and leave at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from talkahead.backbone.cached_decoder import CachedDecoder
from talkahead.backbone.decoder_choice import load_decoder
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions
from talkahead.drafting.draft_heads import weights_of
from talkahead.drafting.draft_lm_kind import draft_lm_drafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.heads_drafter import SizedHeadsDrafter
from talkahead.drafting.mtp_kind import mtp_drafter
from talkahead.drafting.native_heads import NativeHeads
from talkahead.drafting.offer import Offer
from talkahead.drafting.rank_paths import RankTree
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.engine_telemetry import NoTelemetry
from talkahead.engine.method import Method
from talkahead.engine.method_book import MethodBook
from talkahead.engine.slot_table import SlotTable
from talkahead.speculation.contracts import Drafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.target_tokens import TargetTokens
from tiny_talker import POSITIONS, TREE, make_cut, make_heads, make_modules
from torch import Tensor

SMALL_TREE = RankTree(((0,), (1,), (0, 0)))
CHAIN = 4
SIMILARITY = 0.3
OFFER = Offer(
    {
        "heads": DraftSizes((4, 8), 8),
        "mtp": DraftSizes((2, 3, 4), 4),
        "draft_lm": DraftSizes((2, 3, 4, 5), 4),
    },
    (SIMILARITY,),
)


@dataclass(eq=False)
class Speaker:
    """One segment: what it asks for, what was said, and the slot that it has."""

    prompt: Tensor
    options: RequestOptions
    seed: int
    slot: int = -1
    frames: list[int] = field(default_factory=list)
    has_ended: bool = False
    totals: list[int] = field(default_factory=list)


class Telemetry(NoTelemetry):
    """Sums up what segments tell when they leave."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], list[int]] = {}
        self.committed: dict[tuple[str, str], list[int]] = {}

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        pair = (drafter, verifier)
        news = [sum(committed), drafted, accepted]
        self.told[pair] = [one + other for one, other in zip(self.told.get(pair, [0] * 3), news, strict=True)]
        old = self.committed.get(pair, [0] * len(committed))
        self.committed[pair] = [one + other for one, other in zip(old, committed, strict=True)]


class Crowd:
    """A pool over a real decoder and drafts: native ones in float32, torch's in float64."""

    def __init__(self, llama: Llama, num_slots: int, dtype: torch.dtype) -> None:
        self.llama = llama
        self.telemetry = Telemetry()
        pool = DraftPool(num_slots, POSITIONS, dtype)
        self.backbone = load_decoder(
            llama.config,
            llama.state_dict(),
            num_slots=num_slots,
            max_positions=POSITIONS,
            max_nodes=8,
            dtype=dtype,
        )
        self.drafters = drafters_of(llama, pool)
        groups = SimilarityGroups.of(llama.model.embed_tokens.weight, SIMILARITY, alone=(self.backbone.eos,))
        target = TargetTokens(self.backbone.eos, {SIMILARITY: groups})
        self.book = MethodBook(OFFER, self.drafters, target)
        self.step = DecodeStep(self.backbone, NullDrafter(), MatchVerifier())
        self.table = SlotTable(
            self.step,
            num_slots,
            POSITIONS,
            eos=self.backbone.eos,
            silence=0,
            telemetry=self.telemetry,
        )
        self.speaking: list[Speaker] = []

    def method_of(self, speaker: Speaker) -> Method:
        return self.book.of(speaker.options)

    def join(self, speakers: Sequence[Speaker]) -> None:
        slots = [self.table.claim(cast(Any, one)) for one in speakers]
        firsts = self.step.admit(
            [
                Admission(slot, one.prompt, one.options, one.seed, 0, self.method_of(one))
                for slot, one in zip(slots, speakers, strict=True)
            ]
        )
        for slot, token in zip(slots, firsts, strict=True):
            self.table.start(slot, token)
            self.table.wake(slot, POSITIONS)
        self.speaking += speakers

    def run(self, speakers: Sequence[Speaker]) -> None:
        self.table.add(self.step.run([one.slot for one in speakers]))

    def leave_ended(self) -> None:
        for one in list(self.speaking):
            room = POSITIONS - len(one.prompt)
            count = int(self.table.counts[one.slot])
            one.has_ended = bool(self.table.ended[one.slot])
            if one.has_ended or count >= room:
                one.frames = self.frames_of(one)[:room]
                one.totals = self.table.totals[one.slot].tolist()
                self.leave(one)

    def leave(self, speaker: Speaker) -> None:
        self.table.release(cast(Any, speaker))
        self.speaking.remove(speaker)

    def frames_of(self, speaker: Speaker) -> list[int]:
        frames: list[int] = self.table.frames[speaker.slot, : self.table.counts[speaker.slot], 0].tolist()
        return frames

    def speak_in_turn(self, speakers: Sequence[Speaker]) -> None:
        for one in speakers:
            self.join([one])
            while self.speaking:
                self.run(self.speaking)
                self.leave_ended()

    def speak_in_disorder(self, speakers: Sequence[Speaker], guests: Sequence[Speaker], seed: int) -> None:
        """All of `speakers` to their ends, guests for a while; each step takes most of those who are here."""
        chance = random.Random(seed)
        waiting, left = chance.sample(list(speakers), len(speakers)), list(guests)
        while waiting or any(one in speakers for one in self.speaking):
            free = self.table.num_free
            coming = [waiting.pop() for _ in range(min(len(waiting), free, chance.randint(0, 4)))]
            if left and len(coming) < free and chance.random() < 0.3:
                coming.append(left.pop())
            if coming:
                self.join(coming)
            if self.speaking:
                self.run([one for one in self.speaking if chance.random() < 0.8] or self.speaking[:1])
            self.leave_ended()
            for one in [one for one in self.speaking if one in guests and chance.random() < 0.1]:
                self.leave(one)


def drafters_of(llama: Llama, pool: DraftPool) -> dict[str, Drafter]:
    """Drafts that are somewhat like the talker, so that some of what they draft is right."""
    dtype = torch.float64 if pool.dtype is torch.float64 else torch.float32
    heads = make_heads(llama).to(dtype)
    modules = make_modules(llama, "mtp").to(dtype)
    native = None
    if dtype is torch.float32:
        blocks = weights_of(heads.inward), weights_of(heads.outward)
        native = NativeHeads(*blocks, heads.linear_weights(), heads.token_rows(), dtype)
    return {
        "heads": SizedHeadsDrafter(heads, (SMALL_TREE, TREE), native),
        "mtp": mtp_drafter(modules, llama.state_dict(), pool, DraftOptions()),
        "draft_lm": draft_lm_drafter(make_cut(llama), pool, DraftOptions(CHAIN + 1)),
    }


def kv_of(decoder: CachedDecoder, slot: int, length: int) -> Tensor:
    """Keys and values [layers, 2, heads, length, d] of torch's decoder."""
    cache: Any = decoder.cache
    kept: Tensor = cache._kv[:, :, slot, :, :length]
    return kept
