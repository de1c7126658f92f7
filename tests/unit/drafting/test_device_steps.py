"""What a step asks of a device, seen without one.

On torch's device "meta", tensors have no values: whatever looked at one would fail, and what passes between
it and the CPU is seen. That the ways taken there bring the same tokens, a CPU shows that looks at nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from device_traffic import BRINGING, META, Traffic
from replayed import Replayed
from talkahead.backbone import decoder_choice
from talkahead.backbone.cuda_graphs import CudaGraphs
from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.draft_lm_kind import draft_lm_drafter
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.heads_drafter import HeadsDrafter
from talkahead.drafting.mtp_kind import mtp_drafter
from talkahead.engine import decode_step
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.method import Method
from talkahead.engine.step_graphs import StepKind
from talkahead.speculation import host_reads
from talkahead.speculation.allowed_by_step import AllowedByStep
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.history_rules import HistoryRules
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.no_early_end import NoEarlyEnd
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings, candidates, draw, support_of
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.token_tree import TokenTree, chain_of
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.verifiers import VERIFIERS
from tiny_talker import (
    CONFIG,
    POSITIONS,
    SLOTS,
    TREE,
    WIDTH,
    Pool,
    SometimesDrafter,
    make_cut,
    make_drafter,
    make_heads,
    make_llama,
    make_modules,
    utterances_of,
)
from torch import Tensor

EOS = CONFIG.eos
PLAIN = RequestOptions(temperature=0.8)


@contextmanager
def without_values(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a step copies to the host at its end is there, though nothing was computed."""

    def copied(tokens: Tensor, counts: Tensor) -> tuple[Any, Any]:
        return np.zeros(tuple(tokens.shape), np.int64), np.ones(len(counts), np.int64)

    with monkeypatch.context() as patched:
        patched.setattr(decode_step, "_copied", copied)
        yield


def decoder_on_meta(llama: Llama, graphs: Replayed | None = None) -> SlotDecoder:
    state = {name: value.to(META) for name, value in llama.state_dict().items()}
    return SlotDecoder(
        llama.config,
        state,
        num_slots=SLOTS,
        max_positions=POSITIONS,
        max_nodes=len(TREE.paths) + 1,
        dtype=torch.bfloat16,
        device=META,
        graphs=graphs,
    )


def verifier_of(name: str, llama: Llama) -> Verifier:
    groups = SimilarityGroups.of(llama.model.embed_tokens.weight, 0.2, alone=(EOS,)).to(META)
    options = VerifierOptions(tolerance=3, top_k_verify=5, eos_top_k=1, bias=0.1)
    return VERIFIERS[name].kind.of(options, TargetTokens(EOS, {0.2: groups}))


@pytest.fixture(scope="module")
def llama() -> Llama:
    return make_llama()


def drafter_on(device: torch.device, name: str, llama: Llama, dtype: torch.dtype = torch.bfloat16) -> Drafter:
    """One whose products are of `dtype`."""
    pool = DraftPool(SLOTS, POSITIONS, dtype, str(device))
    wide = torch.float32 if dtype is torch.bfloat16 else dtype
    state = {name: value.to(wide) for name, value in llama.state_dict().items()}
    if name == "none":
        return NullDrafter()
    if name == "heads":
        return HeadsDrafter(make_heads(llama).to(device, wide), TREE)
    if name == "draft_lm":
        return draft_lm_drafter(make_cut(llama).to(wide), pool, DraftOptions(4))
    return mtp_drafter(make_modules(llama, name).to(wide), state, pool, DraftOptions())


RULES = {
    "no rules": HistoryRules(),
    "tokens by step": HistoryRules(allowed=AllowedByStep.by_codebook((10, 9, 10), EOS)),
    "all rules": HistoryRules(penalises=True, win_len=4, allowed=NoEarlyEnd(3, EOS)),
}


PAIRS = [
    (drafter, verifier, rules)
    for drafter in ("none", "heads", "mtp", "mtp of the prompt", "draft_lm")
    for verifier in VERIFIERS
    for rules in RULES
    if drafter in ("none", "heads") or rules == "no rules"
]


@pytest.mark.parametrize(("drafter", "verifier", "rules"), PAIRS)
def test_nothing_passes_between_host_and_device_while_a_step_runs(
    drafter: str, verifier: str, rules: str, llama: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Method(drafter_on(META, drafter, llama), verifier_of(verifier, llama), rules=RULES[rules])
    step = DecodeStep(decoder_on_meta(llama, Replayed()), NullDrafter(), MatchVerifier())
    for slot in range(SLOTS):
        step.assign(slot, own)
    slots = [3, 0, 4]
    with without_values(monkeypatch):
        for _ in range(2):
            step.run(slots)  # tables of what is new are brought to the device, once
        with Traffic() as traffic:
            step.run(slots)
    assert traffic.seen == []


@pytest.mark.parametrize(
    ("drafter", "verifier", "rules"),
    [one for one in PAIRS if one[0] == "heads" or one[1:] == ("match", "no rules")],
)
def test_nothing_passes_while_a_step_is_replayed(
    drafter: str, verifier: str, rules: str, llama: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Decoders of drafts have a slot to spare where forwards are recorded.
    monkeypatch.setattr(decoder_choice, "has_graphs", lambda device: True)
    monkeypatch.setattr(decoder_choice, "CudaGraphs", lambda device: Replayed())
    own = Method(drafter_on(META, drafter, llama), verifier_of(verifier, llama), rules=RULES[rules])
    recorder, slots = Replayed(), [3, 0, 4]
    step = DecodeStep(decoder_on_meta(llama, recorder), NullDrafter(), MatchVerifier(), recorder=recorder)
    assert step.graphs is not None
    step.graphs.record(StepKind(own, None, None), len(slots))
    for slot in slots:
        step.assign(slot, own)
    before = recorder.replays
    with without_values(monkeypatch):
        step.run(slots)
        with Traffic() as traffic:
            step.run(slots)
    assert recorder.replays == before + 2
    assert traffic.seen == []


@pytest.mark.parametrize("drafter", ["none", "heads", "mtp", "mtp of the prompt", "draft_lm"])
def test_prompts_are_brought_to_the_device_and_waited_for_once(
    drafter: str, llama: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = DecodeStep(decoder_on_meta(llama), drafter_on(META, drafter, llama), MatchVerifier())
    admissions = [
        Admission(slot, torch.randn(3 + slot, WIDTH), PLAIN, slot, 0, history=torch.arange(slot))
        for slot in (2, 0)
    ]
    with Traffic() as traffic, pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        step.admit(admissions)
    assert traffic.kinds <= BRINGING


def test_methods_side_by_side_pass_nothing_either(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    step = DecodeStep(decoder_on_meta(llama, Replayed()), NullDrafter(), MatchVerifier())
    for slot, (drafter, verifier) in enumerate(
        [("none", "match"), ("heads", "topk"), ("heads", "tolerance")]
    ):
        step.assign(slot, Method(drafter_on(META, drafter, llama), verifier_of(verifier, llama)))
    with without_values(monkeypatch):
        step.run([0, 1, 2])
        with Traffic() as traffic:
            step.run([0, 1, 2])
    assert traffic.seen == []


def test_what_passes_is_noticed(llama: Llama) -> None:
    with Traffic() as traffic:
        torch.arange(3).to(META)
        _ = torch.zeros((3, 3), device=META)[:, torch.tensor([0, 2])]
        int(torch.arange(3).max())
        _ = torch.zeros(3, device=META) * torch.tensor(2.0)
        lengths = torch.zeros(3, device=META)
        lengths[1] = 4
        lengths[:2] = 4
        lengths[1].zero_()
    assert len(traffic.seen) == 4


@pytest.fixture
def looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device: no value is looked at to decide what to compute."""
    monkeypatch.setattr(host_reads, "are_free", lambda tensor: False)


def spoken(
    llama: Llama,
    drafter: Drafter,
    graphs: GraphRecorder | None = None,
    device: torch.device | str = "cpu",
) -> list[tuple[list[int], int]]:
    """What was said, and in how many steps: with worse drafts it takes more."""
    pool = pool_of(llama, drafter, graphs, device)
    utterances = utterances_of(0.9, 8)
    pool.speak(utterances)
    return [(one.tokens, one.steps) for one in utterances]


def pool_of(
    llama: Llama,
    drafter: Drafter,
    graphs: GraphRecorder | None = None,
    device: torch.device | str = "cpu",
) -> Pool:
    pool = Pool(llama, drafter, in_disorder=True)
    pool.backbone = SlotDecoder(
        llama.config,
        llama.state_dict(),
        num_slots=SLOTS,
        max_positions=POSITIONS,
        max_nodes=pool.max_nodes,
        dtype=torch.float64,
        device=device,
        graphs=graphs,
    )
    pool.step = DecodeStep(pool.backbone, drafter, MatchVerifier(), recorder=graphs)
    return pool


@pytest.mark.parametrize("skips", [False, True], ids=["each step", "now and then"])
@pytest.mark.parametrize("kind", ["none", "heads", "mtp", "mtp of the prompt", "draft_lm"])
def test_without_looking_the_same_is_said_in_as_many_steps(
    kind: str, skips: bool, llama: Llama, request: pytest.FixtureRequest
) -> None:
    def drafter() -> Drafter:
        own = NullDrafter() if kind == "none" else make_drafter(kind, llama)
        return SometimesDrafter(own) if skips else own

    expected = spoken(llama, drafter())
    assert spoken(llama, drafter(), graphs := Replayed()) == expected
    request.getfixturevalue("looks_at_nothing")
    assert spoken(llama, drafter(), again := Replayed()) == expected
    assert graphs.replays and again.replays


@pytest.mark.parametrize("skips", [False, True], ids=["each step", "some rows"])
@pytest.mark.parametrize("kind", ["none", "heads", "mtp", "mtp of the prompt", "draft_lm"])
def test_replayed_steps_say_the_same_in_as_many_steps(
    kind: str, skips: bool, llama: Llama, looks_at_nothing: None
) -> None:
    """Steps of 3 and 4 rows were not recorded, nor those of drafts that are far behind: they are launched."""

    def drafter() -> Drafter:
        return NullDrafter() if kind == "none" else make_drafter(kind, llama, graphs=Replayed())

    expected = spoken(llama, drafter())
    recorder, own = Replayed(), drafter()
    pool = pool_of(llama, own, recorder)
    assert pool.step.graphs is not None
    kinds = [Method(own, MatchVerifier(), nodes=nodes) for nodes in (None, 1)]
    for rows in (1, 2, SLOTS):
        for one in kinds:
            pool.step.record(one, PLAIN, [one.nodes], rows)
    assert pool.step.graphs.count == 6
    replays: list[None] = []
    pool.step.graphs.tell = lambda: replays.append(None)
    if skips:
        pool.choose = lambda chance: kinds[chance.random() < 0.1]
    utterances = utterances_of(0.9, 8)
    pool.speak(utterances)
    assert len(replays) > 5
    found = [(one.tokens, one.steps) for one in utterances]
    if skips:
        assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    else:
        assert found == expected


def test_rows_of_two_methods_that_do_the_same_are_told_apart(llama: Llama) -> None:
    """One graph is replayed for each of them, and then both are fetched."""
    drafter, drawn, recorder = make_drafter("heads", llama), [], Replayed()
    alike = [Method(drafter, MatchVerifier()) for _ in range(2)]
    for graphs in (None, recorder):
        pool = pool_of(llama, drafter, graphs)
        pool.join(utterances_of(0.9, 4))
        pool.step.record(alike[0], PLAIN, [None])
        slots = [one.slot for one in pool.running]
        for number, slot in enumerate(slots):
            pool.step.assign(slot, alike[number % 2])
        before = recorder.replays
        drawn.append(pool.step.run(slots))
    assert recorder.replays == before + 2
    launched, replayed = drawn
    assert (launched.slots == replayed.slots).all() and (launched.counts == replayed.counts).all()
    for one, other, count in zip(launched.tokens, replayed.tokens, launched.counts, strict=True):
        assert (one[:count] == other[:count]).all()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.needs("gpu"))])
@pytest.mark.parametrize("kind", ["none", "heads", "mtp", "mtp of the prompt", "draft_lm"])
def test_in_double_precision_every_device_says_the_same(device: str, kind: str, llama: Llama) -> None:
    graphs: GraphRecorder = Replayed() if device == "cpu" else CudaGraphs(torch.device(device))
    drafter = drafter_on(torch.device(device), kind, llama, torch.float64)
    plain = [tokens for tokens, _ in spoken(llama, NullDrafter())]
    assert [tokens for tokens, _ in spoken(llama, drafter, graphs, device)] == plain


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("kind", ["none", "heads", "mtp", "mtp of the prompt", "draft_lm"])
def test_in_double_precision_whole_steps_of_a_gpu_say_the_same(kind: str, llama: Llama) -> None:
    device = torch.device("cuda")
    drafter, recorder = drafter_on(device, kind, llama, torch.float64), CudaGraphs(device)
    pool = pool_of(llama, drafter, recorder, device)
    assert pool.step.graphs is not None
    pool.step.record(Method(drafter, MatchVerifier()), PLAIN, [None])
    assert pool.step.graphs.count == 4
    replays: list[None] = []
    pool.step.graphs.tell = lambda: replays.append(None)
    utterances = utterances_of(0.9, 8)
    pool.speak(utterances)
    assert len(replays) > 5
    assert [one.tokens for one in utterances] == [tokens for tokens, _ in spoken(llama, NullDrafter())]


@pytest.mark.parametrize(
    ("options", "support"),
    [
        ([(0.8, 5, 1.0), (0.0, 0, 1.0), (1.2, 9, 0.7)], 9),
        ([(0.8, 0, 0.9), (1.0, 4, 1.0)], None),
        ([(0.0, 50, 0.5)], 1),
    ],
)
def test_draws_look_at_no_more_tokens_than_the_settings_allow(
    options: list[tuple[float, int, float]], support: int | None, request: pytest.FixtureRequest
) -> None:
    known = [support_of(temperature, top_k) for temperature, top_k, _ in options]
    assert (None if None in known else max(one or 0 for one in known)) == support
    columns = [torch.tensor(column) for column in zip(*options, strict=True)]
    settings = SamplingSettings.of(columns[0].double(), columns[1], columns[2].double())
    rows, keys = len(options), torch.arange(len(options))
    logits = 3 * torch.randn((rows, 4, 40), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    positions = torch.arange(4).repeat(rows, 1)
    expected = draw(logits, settings, keys, positions)
    request.getfixturevalue("looks_at_nothing")
    told = replace(settings, support=support)
    assert candidates(logits[:, 0], told).tokens.shape[1] == (support or 40)
    assert torch.equal(draw(logits, told, keys, positions), expected)
    assert torch.equal(draw(logits, settings, keys, positions), expected)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.needs("gpu"))])
def test_steps_of_one_size_have_the_same_bits_in_any_company(
    device: str, llama: Llama, looks_at_nothing: None
) -> None:
    """A prompt, then trees after it: alone or among others, a root alone or drafted after."""
    graphs: GraphRecorder = Replayed() if device == "cpu" else CudaGraphs(torch.device(device))
    sized = SlotDecoder(
        llama.config,
        {name: value.float() for name, value in llama.state_dict().items()},
        **{"num_slots": SLOTS, "max_positions": POSITIONS, "max_nodes": 8, "device": device},
        graphs=graphs,
        has_one_size=True,
    )
    prompts = torch.randn((3, 9, WIDTH), generator=torch.Generator().manual_seed(2))
    tokens = torch.arange(5, device=device).repeat(3, 1)[..., None]

    def logits(slots: list[int], prompts: Tensor, lengths: list[int], nodes: int) -> tuple[Tensor, Tensor]:
        first = sized.prefill(slots, prompts, lengths).logits
        tree = TokenTree(tokens[: len(slots), :nodes], chain_of(nodes - 1))
        return first[0, 0], sized.score(tree, Rows.of(slots, device)).logits[0, 0]

    alone = logits([1], prompts[:1, :6], [6], 1)
    for slots, nodes in (([1, 0, 4], 1), ([1, 3, 2], 5), ([1], 3)):
        own = prompts[: len(slots)]
        for one, other in zip(logits(slots, own, [6, 9, 2][: len(slots)], nodes), alone, strict=True):
            assert torch.equal(one, other)
    assert sized.graphs is not None and sized.graphs.sizes == [(SLOTS, 8)]
