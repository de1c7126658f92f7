"""In float64 a draft changes no token, and a drafter's KV is what it would be from scratch."""

from __future__ import annotations

import pytest
import torch
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.drafting.draft_lm_drafter import DraftLmDrafter
from talkahead.drafting.mtp_drafter import MtpDrafter
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rows import Rows
from tiny_talker import (
    KINDS,
    LENGTH,
    MODULES,
    POSITIONS,
    Pool,
    SometimesDrafter,
    Utterance,
    make_cut,
    make_decoder,
    make_drafter,
    make_llama,
    make_modules,
    module_decoder,
    utterances_of,
)
from torch import Tensor

EXACT = 1e-9


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama()


def spoken(pool: Pool, temperature: float) -> tuple[list[list[int]], int]:
    """Tokens of each utterance, and steps of all."""
    utterances = utterances_of(temperature)
    pool.speak(utterances)
    return [one.tokens for one in utterances], sum(one.steps for one in utterances)


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_changes_no_token(llama: Llama, kind: str, temperature: float) -> None:
    plain, plain_steps = spoken(Pool(llama, NullDrafter(), max_nodes=1), temperature)
    assert len({len(one) for one in plain}) > 3
    tokens, steps = spoken(Pool(llama, make_drafter(kind, llama)), temperature)
    assert tokens == plain
    assert steps < plain_steps
    disturbed = Pool(llama, SometimesDrafter(make_drafter(kind, llama)), in_disorder=True)
    tokens, steps = spoken(disturbed, temperature)
    assert tokens == plain
    assert steps < plain_steps


class _Stirred:
    """A pool in disorder, stopped in the middle of its utterances."""

    def __init__(self, llama: Llama, kind: str) -> None:
        self.drafter = make_drafter(kind, llama)
        sometimes = SometimesDrafter(self.drafter)
        self.pool = Pool(llama, sometimes, in_disorder=True)
        self.pool.speak(utterances_of(0.9))
        self.pool.join(self._fresh(5 - len(self.pool.running)))
        for _ in range(4):
            self.pool.run()
        # Only a step with the drafter feeds what is known.
        sometimes.propose = self.drafter.propose  # type: ignore[method-assign]
        self.pool.run()

    @staticmethod
    def _fresh(count: int) -> list[Utterance]:
        return utterances_of(0.9, 20)[15 : 15 + max(0, count)]


def same_kv(one: SlotDecoder, slot: int, other: SlotDecoder, length: int) -> None:
    """The first `length` positions of a slot, against slot 0 of the other."""
    for layer in range(one.config.num_hidden_layers):
        for mine, theirs in zip(
            one.cache.read(layer, Rows.of([slot]), length),
            other.cache.read(layer, Rows.of([0]), length),
            strict=True,
        ):
            torch.testing.assert_close(mine, theirs, atol=EXACT, rtol=EXACT)


def test_kv_of_a_draft_model_is_that_of_what_was_said(llama: Llama) -> None:
    stirred = _Stirred(llama, "draft_lm")
    assert isinstance(stirred.drafter, DraftLmDrafter)
    decoder, cut = stirred.drafter._decoder, make_cut(llama)
    assert isinstance(decoder, SlotDecoder)
    for utterance in stirred.pool.running:
        slot = utterance.slot
        length = int(decoder.cache.lengths[slot])
        # The root is not fed before the next step, and of a draft that was right, nor is its last token.
        after = len(utterance.prompt) + len(utterance.tokens) - length
        assert after in (1, 2)
        scratch = make_decoder(cut, nodes=POSITIONS)
        scratch.prefill([0], utterance.prompt[None], [len(utterance.prompt)])
        tokens = torch.tensor(utterance.tokens)[None, :-after]
        scratch.extend(cut.model.embed_tokens(tokens), torch.tensor([tokens.shape[1]]), Rows.of([0]))
        same_kv(decoder, slot, scratch, length)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "mtp" in kind])
def test_kv_of_modules_is_that_of_what_was_said(llama: Llama, kind: str) -> None:
    stirred = _Stirred(llama, kind)
    assert isinstance(stirred.drafter, MtpDrafter)
    modules = make_modules(llama, kind)
    for utterance in stirred.pool.running:
        slot = utterance.slot
        hidden, embedded = _states(llama, utterance, modules.sees_prompt)
        beyond = hidden.shape[1] - len(utterance.tokens)
        truth = [hidden, *modules(hidden, embedded)]
        for after, (module, decoder) in enumerate(zip(modules, stirred.drafter._decoders, strict=True)):
            assert isinstance(decoder, SlotDecoder)
            length = int(decoder.cache.lengths[slot])
            missing = len(utterance.tokens) + beyond - length
            assert 1 <= missing <= 1 + MODULES + after
            scratch = module_decoder(llama, modules, module)
            for first in range(0, length, 4):
                last = min(first + 4, length)
                told = embedded[:, first + after : last + after]
                rows = module.inputs(truth[after][:, first:last], told)
                scratch.extend(rows, torch.tensor([last - first]), Rows.of([0]))
            same_kv(decoder, slot, scratch, length)


def _states(llama: Llama, utterance: Utterance, sees_prompt: bool) -> tuple[Tensor, Tensor]:
    """The target's hidden states [1, T, D] that drew the frames, and the frames, embedded; or its states from
    the prompt's first row on, and as many rows of anything."""
    embedded = llama.model.embed_tokens(torch.tensor(utterance.tokens))
    rows = torch.cat([utterance.prompt, embedded[:-1]])[None]
    hidden = llama(rows).hidden
    return (hidden, hidden) if sees_prompt else (hidden[:, len(utterance.prompt) - 1 :], embedded[None])


def test_a_draft_model_like_the_target_is_always_right(llama: Llama) -> None:
    """Shared noise: all of a draft is accepted, so steps are as few as they can be."""
    whole = make_cut(llama, llama.config.num_hidden_layers)
    decoder = make_decoder(whole, positions=POSITIONS + LENGTH)
    drafter = DraftLmDrafter(decoder, whole.model.embed_tokens.weight, LENGTH)
    utterances = utterances_of(0.9)
    Pool(llama, drafter).speak(utterances)
    assert [one.steps for one in utterances] == [
        -(-(len(one.tokens) - 1) // (LENGTH + 1)) for one in utterances
    ]
