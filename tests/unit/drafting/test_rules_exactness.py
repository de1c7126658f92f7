"""In float64 rules on history leave drafts exact: the tokens are plain decoding's, and transformers'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from crowd import Crowd, Speaker
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.speculation.allowed_by_step import AllowedByStep
from talkahead.speculation.allowed_tokens import AllowedTokens
from talkahead.speculation.contracts import Context
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.no_early_end import NoEarlyEnd
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree, chain_of
from tiny_talker import (
    CONFIG,
    KINDS,
    POSITIONS,
    VOCABULARY,
    Pool,
    SometimesDrafter,
    Utterance,
    make_decoder,
    make_drafter,
    make_llama,
    utterances_of,
)
from torch import Tensor
from transformers import LlamaForCausalLM

RULES: tuple[dict[str, float], ...] = (
    {"repetition_penalty": 1.3},
    {"ras_win_len": 10, "ras_win_max_num_repeat": 1, "top_p": 0.8},
    {},
    {"repetition_penalty": 2.0, "ras_win_len": 7, "ras_win_max_num_repeat": 2},
    {"repetition_penalty": 1.1},
    {"ras_win_len": 30, "ras_win_max_num_repeat": 3},
)


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama()


def tokens_of(count: int, seed: int) -> Tensor:
    return torch.randint(VOCABULARY - 1, (count,), generator=torch.Generator().manual_seed(seed))


def ruled_utterances(temperature: float, rules: Sequence[dict[str, float]] = RULES) -> list[Utterance]:
    """Each with rules of its own; every other one with tokens in its prompt."""
    plain = utterances_of(temperature)
    return [
        Utterance(
            one.prompt,
            replace(one.options, **rules[index % len(rules)]),
            one.seed + 2,  # with which most have much to say
            history=tokens_of(len(one.prompt) * (index % 2), index),
        )
        for index, one in enumerate(plain)
    ]


def spoken(pool: Pool, utterances: list[Utterance]) -> list[list[int]]:
    pool.speak(utterances)
    return [one.tokens for one in utterances]


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_changes_no_token_under_rules(llama: Llama, kind: str, temperature: float) -> None:
    plain = spoken(Pool(llama, NullDrafter(), max_nodes=1), ruled_utterances(temperature))
    alone = [
        spoken(Pool(llama, NullDrafter(), max_nodes=1), [one])[0] for one in ruled_utterances(temperature)
    ]
    assert alone == plain
    utterances = ruled_utterances(temperature)
    assert spoken(Pool(llama, make_drafter(kind, llama)), utterances) == plain
    assert sum(one.steps for one in utterances) < sum(map(len, plain)) - len(plain)
    disturbed = Pool(llama, SometimesDrafter(make_drafter(kind, llama)), in_disorder=True)
    assert spoken(disturbed, ruled_utterances(temperature)) == plain


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
def test_rules_change_what_is_said_where_they_are_asked_for(llama: Llama, temperature: float) -> None:
    """Nothing is drawn again where nothing is drawn."""
    has_effect = ("repetition_penalty", "ras_win_len")[: 1 + (temperature > 0)]
    off = [{"top_p": one.get("top_p", 0.95)} for one in RULES]
    ruled, free = (
        spoken(Pool(llama, NullDrafter()), ruled_utterances(temperature, rules)) for rules in (RULES, off)
    )
    is_ruled = [any(one in RULES[place % len(RULES)] for one in has_effect) for place in range(len(ruled))]
    is_other = [own != other for own, other in zip(ruled, free, strict=True)]
    assert all(rule or not other for rule, other in zip(is_ruled, is_other, strict=True))
    assert sum(is_other) > sum(is_ruled) * 3 / 4  # one that ends soon may have nothing to repeat


@pytest.fixture(scope="module")
def reference(llama: Llama, tmp_path_factory: pytest.TempPathFactory) -> LlamaForCausalLM:
    folder: Path = tmp_path_factory.mktemp("talker")
    llama.save(folder)
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_greedy_tokens_under_a_penalty_are_transformers(
    llama: Llama, reference: LlamaForCausalLM, kind: str | None
) -> None:
    """A prompt of tokens, all of which count, as in `input_ids`."""
    prompts = [tokens_of(2 + 5 * seed % 11, seed) for seed in range(8)]
    penalties = [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.8, 2.0]
    utterances = [
        Utterance(
            llama.model.embed_tokens(prompt),
            RequestOptions(temperature=0.0, repetition_penalty=penalty),
            seed=0,
            history=prompt,
        )
        for prompt, penalty in zip(prompts, penalties, strict=True)
    ]
    drafter = NullDrafter() if kind is None else make_drafter(kind, llama)
    for own, prompt, penalty in zip(
        spoken(Pool(llama, drafter), utterances), prompts, penalties, strict=True
    ):
        said = reference.generate(
            prompt[None],
            attention_mask=torch.ones_like(prompt[None]),
            do_sample=False,
            repetition_penalty=penalty,
            min_new_tokens=1,
            max_new_tokens=POSITIONS - len(prompt),
            eos_token_id=CONFIG.eos_token_id,
            pad_token_id=CONFIG.eos_token_id,
        )
        assert own == said[0, len(prompt) :].tolist()


def test_steps_of_a_frame_are_allowed_in_turn(llama: Llama) -> None:
    """With drafts that know nothing of it: the same tokens, each of its step's codebook."""
    sizes, eos = (10, 11, 8), VOCABULARY - 1
    allowed = AllowedByStep.by_codebook(sizes, eos)

    def pool(kind: str | None) -> Pool:
        made = Pool(llama, NullDrafter() if kind is None else make_drafter(kind, llama))
        made.step = DecodeStep(made.backbone, made.drafter, MatchVerifier(), allowed=allowed)
        return made

    plain = spoken(pool(None), ruled_utterances(0.9))
    books = [range(10), range(10, 21), range(21, 29)]
    for said in plain:
        whole = said[:-1] if said[-1] == eos else said
        assert all(token in books[place % 3] for place, token in enumerate(whole))
        assert len(whole) >= 3
    assert any(said[-1] == eos and len(said) % 3 != 1 for said in plain), "the end may cut a frame short"
    for kind in KINDS:
        assert spoken(pool(kind), ruled_utterances(0.9)) == plain


def test_no_end_comes_early_with_any_draft(llama: Llama) -> None:
    """What was said without the rule is said, until it would have ended too soon."""
    least, eos = 12, VOCABULARY - 1

    def pool(kind: str | None, allowed: AllowedTokens | None = None) -> Pool:
        made = Pool(llama, NullDrafter() if kind is None else make_drafter(kind, llama))
        made.step = DecodeStep(made.backbone, made.drafter, MatchVerifier(), allowed=allowed)
        return made

    free = spoken(pool(None), ruled_utterances(0.9))
    plain = spoken(pool(None, NoEarlyEnd(least, eos)), ruled_utterances(0.9))
    assert any(eos in said[:least] for said in free)
    for said, before in zip(plain, free, strict=True):
        assert eos not in said[:least]
        kept = before.index(eos) if eos in before[:least] else len(before)
        assert said[:kept] == before[:kept]
    for kind in KINDS:
        assert spoken(pool(kind, NoEarlyEnd(least, eos)), ruled_utterances(0.9)) == plain


def test_a_crowd_of_methods_and_rules_says_what_each_says_alone(llama: Llama) -> None:
    def speakers() -> list[Speaker]:
        return [
            Speaker(one.prompt, replace(one.options, drafter=drafter, verifier=verifier, **budget), one.seed)
            for one, (drafter, verifier, budget) in zip(
                ruled_utterances(0.9),
                [
                    ("none", "match", {}),
                    ("heads", "match", {"pin_draft": True}),
                    ("draft_lm", "ratio", {"pin_draft": True}),
                    ("mtp", "match", {"pin_draft": True}),
                ]
                * 3,
                strict=False,
            )
        ]

    turn, crowd = speakers(), speakers()
    Crowd(llama, 6, torch.float64).speak_in_turn(turn)
    Crowd(llama, 6, torch.float64).speak_in_disorder(crowd, [], seed=5)
    assert [one.frames for one in crowd] == [one.frames for one in turn]


def test_rows_of_one_method_under_other_rules_go_together(llama: Llama) -> None:
    """Values are columns: only the kinds of rules part rows."""
    step = DecodeStep(make_decoder(llama), NullDrafter(), MatchVerifier())
    asked: tuple[dict[str, float], ...] = (
        {},
        {},
        {"repetition_penalty": 1.1},
        {"repetition_penalty": 1.9},
        {"ras_win_len": 9},
        {"ras_win_len": 16},
    )
    step.admit(
        [
            Admission(
                slot, torch.zeros(2, CONFIG.hidden_size, dtype=torch.float64), RequestOptions(**one), 0, 0
            )
            for slot, one in enumerate(asked)
        ]
    )
    methods = [step.method_of(slot) for slot in range(len(asked))]
    assert methods[0] is methods[1] and methods[2] is methods[3] and methods[4] is methods[5]
    assert len({id(one) for one in methods}) == 3


class WildDrafter(NullDrafter):
    """Guesses seven tokens at random, so that most are not said."""

    def propose(self, context: Context) -> TokenTree:
        guesses = torch.randint(VOCABULARY, (len(context.roots), 7, 1))
        return TokenTree(torch.cat([context.roots[:, None], guesses], dim=1), chain_of(7))


def test_refused_guesses_are_not_taken_for_the_prompt_s_tokens(llama: Llama) -> None:
    """Of a slot that is full but for a few places, all its prompt's being tokens."""
    torch.manual_seed(0)
    step = DecodeStep(make_decoder(llama, nodes=8), WildDrafter(), MatchVerifier())
    prompt = tokens_of(6, 1)
    options = RequestOptions(temperature=0.9, repetition_penalty=1.2)
    first = step.admit([Admission(2, llama.model.embed_tokens(prompt), options, 3, 0, history=prompt)])
    said = first[0].tolist()
    while len(said) < POSITIONS - len(prompt):
        (part,) = step._lay_out((2,)).parts
        frames = part.context(None, step._state).frames[0, :, 0].tolist()
        assert frames[-len(prompt) :] == prompt.tolist()
        assert frames[: len(said)] == said
        drawn = step.run([2])
        said += drawn.tokens[0, : drawn.counts[0], 0].tolist()
