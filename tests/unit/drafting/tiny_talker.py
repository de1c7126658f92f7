"""A tiny random talker in float64, drafts that are somewhat like it, and a pool that is never quiet."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from talkahead.backbone.checkpoint import EMBEDDINGS
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.drafting.mtp_kind import head_tables
from talkahead.drafting.mtp_modules import MtpModule, MtpModules
from talkahead.drafting.rank_paths import RankTree
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.method import Method
from talkahead.speculation.contracts import Context, Drafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree
from torch import Tensor

WIDTH, VOCABULARY, SLOTS, POSITIONS = 32, 30, 6, 48
CONFIG = DecoderConfig(VOCABULARY, VOCABULARY - 1, WIDTH, 48, 3, 2, 1, 16)
MODULES, LENGTH, RANK = 3, 3, 16
TREE = RankTree(((0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)))
MAX_NODES = 4
"""Of decoders of drafts: so few that catching up takes several rounds."""


def make_llama(config: DecoderConfig = CONFIG) -> Llama:
    torch.manual_seed(3)
    llama = Llama(config).double().eval().requires_grad_(False)
    for name, value in llama.named_parameters():
        if "norm" not in name:
            value.mul_(5.0)
    return llama


def make_cut(llama: Llama, layers: int = 2) -> Llama:
    cut = Llama(replace(llama.config, num_hidden_layers=layers)).double().requires_grad_(False)
    state = llama.state_dict()
    cut.load_state_dict({name: state[name] for name in cut.state_dict()})
    return cut


def make_modules(llama: Llama, kind: str) -> MtpModules:
    """Ours, or as they are published: of the prompt, and without a norm."""
    torch.manual_seed(5)
    if kind == "mtp of the prompt":
        modules = MtpModules(llama.config, MODULES, sees_tokens=False, has_norm=False, sees_prompt=True)
        for module in modules:
            module.begin_as(llama)
    else:
        rank = RANK if kind == "narrow mtp" else None
        sees_tokens = kind in ("mtp", "narrow mtp")
        modules = MtpModules.beginning_as(llama, MODULES, sees_tokens=sees_tokens, output_rank=rank)
    return modules.double().requires_grad_(False)


def make_decoder(
    llama: Llama,
    *,
    positions: int = POSITIONS,
    nodes: int = MAX_NODES,
    slots: int = SLOTS,
    graphs: GraphRecorder | None = None,
) -> SlotDecoder:
    return SlotDecoder(
        llama.config,
        llama.state_dict(),
        num_slots=slots,
        max_positions=positions,
        max_nodes=nodes,
        dtype=torch.float64,
        graphs=graphs,
    )


def tables_of(llama: Llama, modules: MtpModules) -> dict[str, Tensor]:
    """What a module shares with its target, and with the others."""
    state = llama.state_dict()
    return {EMBEDDINGS: state[EMBEDDINGS], **head_tables(modules, state)}


def module_decoder(
    llama: Llama,
    modules: MtpModules,
    module: MtpModule,
    slots: int = SLOTS,
    graphs: GraphRecorder | None = None,
) -> SlotDecoder:
    state = {**tables_of(llama, modules), **module.decoder.state_dict()}
    return SlotDecoder(
        module.decoder.config,
        state,
        num_slots=slots,
        max_positions=POSITIONS,
        max_nodes=MAX_NODES,
        dtype=torch.float64,
        graphs=graphs,
    )


def make_heads(llama: Llama) -> DraftHeads:
    """Three that know something of the root."""
    torch.manual_seed(9)
    heads = DraftHeads.beginning_as(llama.lm_head.weight, 3, llama.model.embed_tokens.weight)
    for layer in (heads.projector, *heads.outward):
        torch.nn.init.normal_(layer.get_parameter("weight"), std=0.1)
    return heads.requires_grad_(False)


def make_drafter(kind: str, llama: Llama, slots: int = SLOTS, graphs: GraphRecorder | None = None) -> Drafter:
    if kind == "heads":
        return HeadsDrafter(make_heads(llama).double(), TREE)
    if kind == "draft_lm":
        cut = make_cut(llama)
        decoder = make_decoder(cut, positions=POSITIONS + LENGTH, slots=slots, graphs=graphs)
        return DraftLmDrafter(decoder, cut.model.embed_tokens.weight, LENGTH)
    modules = make_modules(llama, kind)
    decoders = [module_decoder(llama, modules, module, slots, graphs) for module in modules]
    return MtpDrafter(modules, decoders, llama.model.embed_tokens.weight)


KINDS = ("heads", "draft_lm", "mtp", "narrow mtp", "mtp without tokens", "mtp of the prompt")


class SometimesDrafter(NullDrafter):
    """Leaves out every other step or so: its drafter is then only told what became of it."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self._chance = random.Random(2)
        self.observe, self.admit = drafter.observe, drafter.admit
        self.release = drafter.release
        self.sees_prompt = drafter.sees_prompt

    def propose(self, context: Context) -> TokenTree:
        # Now and then for so long that what was missed is more than is fed at once.
        if self._chance.random() < 0.7 and int(context.positions.max()) % 16 < 7:
            return self.drafter.propose(context)
        return super().propose(context)


@dataclass(eq=False)
class Utterance:
    """One segment: its prompt [P, D], options and seed, what was said of it in how many steps, its slot."""

    prompt: Tensor
    options: RequestOptions
    seed: int
    tokens: list[int] = field(default_factory=list)
    steps: int = 0
    slot: int = -1
    history: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


def utterances_of(temperature: float, count: int = 14) -> list[Utterance]:
    generator = torch.Generator().manual_seed(0)
    return [
        Utterance(
            torch.randn((2 + index * 5 % 11, WIDTH), generator=generator, dtype=torch.float64),
            RequestOptions(temperature=temperature, top_p=0.95, top_k=6 * (index % 3)),
            seed=31 * index,
        )
        for index in range(count)
    ]


@dataclass
class Pool:
    """All who are here run. In disorder, they join late in any free slot, and are rows in any order."""

    llama: Llama
    drafter: Drafter
    in_disorder: bool = False
    max_nodes: int = len(TREE.paths) + 1
    running: list[Utterance] = field(default_factory=list)
    choose: Callable[[random.Random], Method] | None = None
    """The method of a row in the next step; None: always the step's own."""

    def __post_init__(self) -> None:
        self.backbone = make_decoder(self.llama, nodes=self.max_nodes)
        self.step = DecodeStep(self.backbone, self.drafter, MatchVerifier())
        self.chance = random.Random(4)

    def speak(self, waiting: Sequence[Utterance]) -> None:
        left = list(waiting)
        guests = utterances_of(0.9, 40)
        while left or any(one in waiting for one in self.running):
            if left and len(self.running) < SLOTS:
                self.join([left.pop(0) for _ in range(min(len(left), SLOTS - len(self.running)))])
            if self.in_disorder:
                self._stir(guests)
            self.run()
            self._leave([one for one in self.running if self._has_ended(one)])

    def run(self) -> None:
        for one in self.running if self.choose else ():
            self.step.assign(one.slot, self.choose(self.chance))
        drawn = self.step.run([one.slot for one in self.running])
        by_slot = {one.slot: one for one in self.running}
        for row, slot in enumerate(drawn.slots.tolist()):
            by_slot[slot].tokens += drawn.tokens[row, : drawn.counts[row], 0].tolist()
            by_slot[slot].steps += 1

    def join(self, utterances: list[Utterance]) -> None:
        if not utterances:
            return
        free = sorted(set(range(SLOTS)) - {one.slot for one in self.running})
        if self.in_disorder:
            self.chance.shuffle(free)
        for utterance, slot in zip(utterances, free, strict=False):
            utterance.slot = slot
        firsts = self.step.admit(
            [
                Admission(one.slot, one.prompt, one.options, one.seed, segment=0, history=one.history)
                for one in utterances
            ]
        )
        for utterance, first in zip(utterances, firsts, strict=True):
            utterance.tokens += first.tolist()
            self.running.append(utterance)

    def _stir(self, guests: list[Utterance]) -> None:
        if guests and len(self.running) < SLOTS and self.chance.random() < 0.4:
            self.join([guests.pop()])
        if self.chance.random() < 0.4:
            self.chance.shuffle(self.running)

    def _has_ended(self, utterance: Utterance) -> bool:
        room = POSITIONS - len(utterance.prompt)
        del utterance.tokens[room:]
        if CONFIG.eos in utterance.tokens:
            del utterance.tokens[utterance.tokens.index(CONFIG.eos) + 1 :]
            return True
        return len(utterance.tokens) == room

    def _leave(self, ended: list[Utterance]) -> None:
        for utterance in ended:
            self.running.remove(utterance)
            self.step.release(utterance.slot)
