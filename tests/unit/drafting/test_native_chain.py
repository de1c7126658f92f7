"""Chains that are drafted in one C call are those of the tensor code, step for step, in a busy pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.drafting.mtp_modules import MtpModule, MtpModules
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.speculation.contracts import Accepted, Context, Scored
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree
from tiny_talker import (
    LENGTH,
    MAX_NODES,
    POSITIONS,
    SLOTS,
    Pool,
    SometimesDrafter,
    make_cut,
    make_llama,
    make_modules,
    tables_of,
    utterances_of,
)
from torch import Tensor

NEAR = 1e-5
"""Largest difference of two probabilities; modules project their inputs in another order."""
KINDS = ("draft_lm", "mtp", "narrow mtp", "mtp without tokens", "mtp of the prompt")


def narrow(llama: Llama) -> Llama:
    """Its weights as bfloat16 holds them, in float32."""
    copy = Llama(llama.config)
    copy.load_state_dict({name: value.bfloat16().float() for name, value in llama.state_dict().items()})
    return copy.requires_grad_(False)


def make_decoder(
    llama: Llama, nodes: int = MAX_NODES, state: Mapping[str, Tensor] | None = None
) -> NativeDecoder:
    return NativeDecoder(
        llama.config,
        state or llama.state_dict(),
        num_slots=SLOTS,
        max_positions=POSITIONS + LENGTH,
        max_nodes=nodes,
    )


def module_decoder(llama: Llama, modules: MtpModules, module: MtpModule) -> NativeDecoder:
    state = {**tables_of(llama, modules), **module.decoder.state_dict()}
    return make_decoder(module.decoder, state=state)


def make_drafter(kind: str, llama: Llama, returns_probs: bool) -> DraftLmDrafter | MtpDrafter:
    if kind == "draft_lm":
        cut = narrow(make_cut(llama))
        embeddings = cut.model.embed_tokens.weight
        return DraftLmDrafter(make_decoder(cut), embeddings, LENGTH, returns_probs=returns_probs)
    modules, target = make_modules(llama, kind).float(), narrow(llama)
    decoders = [module_decoder(target, modules, module) for module in modules]
    return MtpDrafter(modules, decoders, target.model.embed_tokens.weight, returns_probs=returns_probs)


class BothDrafter(NullDrafter):
    """A native drafter and its twin, which does all with tensors, live through the same steps."""

    def __init__(self, native: DraftLmDrafter | MtpDrafter, twin: DraftLmDrafter | MtpDrafter) -> None:
        self._native, self._twin = native, twin
        self.steps, self.largest = 0, 0.0

    def propose(self, context: Context) -> TokenTree:
        ours, theirs = self._native.propose(context), self._twin.propose_in_torch(context)
        assert torch.equal(ours.tokens, theirs.tokens) and ours.shape == theirs.shape
        assert (ours.draft_probs is None) == (theirs.draft_probs is None)
        if ours.draft_probs is not None and theirs.draft_probs is not None:
            difference = float((ours.draft_probs - theirs.draft_probs).abs().max())
            self.largest = max(self.largest, difference)
        self.steps += 1
        return ours

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        self._native.observe(tree, scored, accepted, context)
        self._twin.observe_in_torch(tree, scored, accepted, context)

    @property
    def sees_prompt(self) -> bool:
        return self._native.sees_prompt

    def admit(self, slots: list[int], prompts: Tensor, lengths: list[int], hidden: Tensor | None) -> None:
        for one in (self._native, self._twin):
            one.admit(slots, prompts, lengths, hidden)

    def release(self, slot: int) -> None:
        for one in (self._native, self._twin):
            one.release(slot)


@dataclass
class NativePool(Pool):
    """A pool whose target is native too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.backbone = make_decoder(narrow(self.llama), self.max_nodes)
        self.step = DecodeStep(self.backbone, self.drafter, MatchVerifier())


@pytest.mark.parametrize("returns_probs", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("kind", KINDS)
def test_chains_are_those_of_tensors(kind: str, returns_probs: bool) -> None:
    llama = make_llama()
    both = BothDrafter(*(make_drafter(kind, llama, returns_probs) for _ in range(2)))
    pool = NativePool(llama, SometimesDrafter(both), in_disorder=True)
    pool.speak(utterances_of(0.9, 40))
    assert both.steps > 30
    assert both.largest <= NEAR if kind != "draft_lm" else both.largest == 0


def test_a_draft_beyond_its_slot_is_refused() -> None:
    llama = make_llama()
    drafter = make_drafter("draft_lm", llama, returns_probs=False)
    step = DecodeStep(make_decoder(narrow(llama), 4), drafter, MatchVerifier())
    utterance = utterances_of(0.9)[0]
    step.admit([Admission(0, utterance.prompt, utterance.options, 0, segment=0)])
    context = step._lay_out((0,)).parts[0].context(None, step._state)
    context.positions.fill_(POSITIONS + LENGTH + MAX_NODES)
    with pytest.raises(IndexError, match="does not fit its slot"):
        drafter.propose(context)
