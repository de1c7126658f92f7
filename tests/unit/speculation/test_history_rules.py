"""Rules on history, node by node, against what one does by hand with the tokens before each node."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from markov_speech import (
    BUSHY,
    CHAIN,
    SHAPES,
    TWINS,
    BestDrafter,
    MarkovBackbone,
    SampledDrafter,
    excess,
    keys_of,
    make_tables,
    settings_of,
    speak,
    trigrams,
)
from talkahead.config import RequestOptions
from talkahead.speculation import native_walk, torch_walk
from talkahead.speculation.allowed_by_step import AllowedByStep
from talkahead.speculation.context_addresses import ContextAddresses
from talkahead.speculation.contracts import Context, Drafter, Scored
from talkahead.speculation.history_rules import NO_RULES, HistoryRules
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.no_early_end import NoEarlyEnd
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.ratio_verifier import RatioVerifier
from talkahead.speculation.repetition_settings import RepetitionSettings
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import draw, probabilities
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

VOCABULARY, PLACES = 12, 20
KIND = (0.8, 6, 0.9)


@dataclass(frozen=True)
class Row:
    """What one row asks for, what stands in its prompt, and what it has said."""

    penalty: float = 1.0
    win_len: int = 0
    max_num_repeat: int = 1
    prompt: tuple[int, ...] = ()
    said: tuple[int, ...] = (3,)
    temperature: float = KIND[0]


ROWS = (
    Row(1.3, 4, 1, (1, 2, 2), (3, 3, 2, 7, 3)),
    Row(1.7, 10, 2, (5, 0), (3,)),
    Row(1.0, 0, 1, (1, 2, 3, 4), (8, 8, 8, 1)),
    Row(2.0, 3, 2, (), (6, 6, 5, 6)),
    Row(1.0, 5, 3, (4, 4), (4, 9, 4, 9, 9, 4, 1, 2, 3, 4, 4, 4)),
    Row(1.2, 6, 1, (), (0, 11, 0), temperature=0.0),
)


def repetition_of(rows: tuple[Row, ...]) -> RepetitionSettings:
    return RepetitionSettings(
        torch.tensor([row.penalty for row in rows], dtype=torch.float64),
        torch.tensor([row.win_len for row in rows]),
        torch.tensor([row.max_num_repeat for row in rows]),
        torch.tensor([len(row.prompt) for row in rows]),
    )


def context_of(rows: tuple[Row, ...]) -> Context:
    """Places that nobody has written to hold tokens of nobody."""
    frames = torch.randint(VOCABULARY, (len(rows), PLACES, 1), generator=torch.Generator().manual_seed(1))
    for line, row in enumerate(rows):
        frames[line, : len(row.said), 0] = torch.tensor(row.said)
        if row.prompt:
            frames[line, -len(row.prompt) :, 0] = torch.tensor(row.prompt)
    positions = torch.tensor([len(row.said) - 1 for row in rows])
    return Context(
        rows=Rows.of(range(len(rows))),
        roots=frames[torch.arange(len(rows)), positions],
        positions=positions,
        hidden=torch.zeros(len(rows), 0),
        frames=frames,
        keys=keys_of(len(rows)),
        settings=settings_of(len(rows), *((row.temperature, *KIND[1:]) for row in rows)),
        repetition=repetition_of(rows),
        scratch={},
    )


def tree_of(shape: TreeShape, context: Context) -> TokenTree:
    """Of few tokens, so that they repeat."""
    size = (len(context.roots), len(shape), 1)
    tokens = torch.randint(4, size, generator=torch.Generator().manual_seed(2))
    tokens[:, 0] = context.roots
    return TokenTree(tokens, shape)


def scored_of(tree: TokenTree, dtype: torch.dtype) -> Scored:
    size = (tree.num_rows, tree.num_nodes, VOCABULARY)
    logits = 2 * torch.randn(size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Scored(logits.to(dtype), torch.zeros(*size[:2], 1))


def tokens_before(row: Row, tree: TokenTree, line: int, node: int) -> list[int]:
    """All that stands before what follows a node, in order."""
    path = [one for one in tree.shape.paths[node, 1:].tolist() if one >= 0]
    return [*row.prompt, *row.said, *tree.tokens[line, path, 0].tolist()]


def penalised_by_hand(logits: Tensor, row: Row, before: list[int]) -> Tensor:
    return RepetitionPenaltyLogitsProcessor(row.penalty)(torch.tensor([before]), logits[None])[0]


def redrawn_by_hand(logits: Tensor, row: Row, before: list[int]) -> Tensor:
    """Probabilities of what is drawn by the nucleus and, where it repeats itself, again by the softmax."""
    own = probabilities(logits[None, None], settings_of(1, (row.temperature, *KIND[1:])))[0, 0]
    window = before[-row.win_len :]
    law, lost = own.clone(), 0.0
    for token in range(VOCABULARY):
        if window.count(token) >= row.max_num_repeat:
            lost += float(own[token])
            law[token] = 0.0
    return law + lost * logits.softmax(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_penalty_is_that_of_transformers_at_every_node(shape: TreeShape, dtype: torch.dtype) -> None:
    context = context_of(ROWS)
    tree = tree_of(shape, context)
    scored = scored_of(tree, dtype)
    before = scored.logits.clone()
    ruled, same = HistoryRules(penalises=True).apply(tree, scored, context)
    assert same is context and torch.equal(scored.logits, before)
    for line, row in enumerate(ROWS):
        for node in range(len(shape)):
            said = tokens_before(row, tree, line, node)
            assert torch.equal(ruled.logits[line, node], penalised_by_hand(before[line, node], row, said))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_what_repeats_itself_is_drawn_again_at_every_node(shape: TreeShape, dtype: torch.dtype) -> None:
    context = context_of(ROWS)
    tree = tree_of(shape, context)
    scored = scored_of(tree, dtype)
    for win_len in (10, 16):
        ruled, drawn_by = HistoryRules(win_len=win_len).apply(tree, scored, context)
        law = probabilities(ruled.logits, drawn_by.settings).double()
        for line, row in enumerate(ROWS):
            if row.win_len == 0 or row.temperature == 0:
                assert torch.equal(ruled.logits[line], scored.logits[line])
                assert drawn_by.settings.columns[3][line] == context.settings.top_p[line]
                continue
            for node in range(len(shape)):
                said = tokens_before(row, tree, line, node)
                expected = redrawn_by_hand(scored.logits[line, node].double(), row, said)
                torch.testing.assert_close(law[line, node], expected, atol=1e-6, rtol=1e-5)


def test_that_law_is_what_the_procedure_draws() -> None:
    """By its own words: draw; if it is in the window often enough, draw from the softmax. Rate 1e-6."""
    row, count = ROWS[0], 40_000
    logits = scored_of(tree_of(ROOT_ALONE, context_of(ROWS)), torch.float64).logits[:1]
    many, own = logits.expand(count, 1, -1), settings_of(count, KIND)
    place = torch.zeros(count, 1, dtype=torch.int64)
    drawn = draw(many, own, keys_of(count, 1), place)[:, 0]
    again = draw(many, settings_of(count, (1.0, 0, 1.0)), keys_of(count, 2), place)[:, 0]
    window = [*row.prompt, *row.said][-row.win_len :]
    is_repeated = torch.tensor([window.count(token) >= row.max_num_repeat for token in range(VOCABULARY)])
    counts = torch.bincount(torch.where(is_repeated[drawn], again, drawn), minlength=VOCABULARY)
    assert excess(counts, redrawn_by_hand(logits[0, 0], row, window)) < 1


def test_tokens_that_are_never_drawn_keep_their_order() -> None:
    """`topk` looks at ranks: of tokens with a probability of 0 none is as good as the other."""
    rows = (Row(win_len=2, said=(0, 1)),)
    context = context_of(rows)
    logits = torch.arange(VOCABULARY, 0, -1.0)[None, None] * 3
    logits[..., :2] = -40.0
    for one in (logits, logits.double()):
        scored = Scored(one, torch.zeros(1, 1, 1))
        ruled, drawn_by = HistoryRules(win_len=2).apply(TokenTree(context.roots[:, None]), scored, context)
        assert torch.equal(ruled.logits.argsort(stable=True), one.argsort(stable=True))
        law = probabilities(ruled.logits, drawn_by.settings)
        assert torch.equal(law > 0, probabilities(one, context.settings) > 0)


def test_before_the_first_token_the_prompt_alone_counts() -> None:
    rows = (Row(1.5, 3, 1, prompt=(2, 5, 5)), Row(1.5, 3, 1, prompt=()))
    context = context_of(rows)
    context.positions.fill_(-1)
    context.roots.copy_(context.frames[:, -1])
    tree = TokenTree(context.roots[:, None])
    scored = scored_of(tree, torch.float64)
    penalised = HistoryRules(penalises=True).apply(tree, scored, context)[0].logits
    assert torch.equal(penalised[1], scored.logits[1])
    by_hand = penalised_by_hand(scored.logits[0, 0], rows[0], [2, 5, 5])
    assert torch.equal(penalised[0, 0], by_hand) and not torch.equal(by_hand, scored.logits[0, 0])
    ruled, drawn_by = HistoryRules(win_len=4).apply(tree, scored, context)
    law = probabilities(ruled.logits, drawn_by.settings)[:, 0]
    for line, prompt in enumerate(([2, 5, 5], [])):
        torch.testing.assert_close(law[line], redrawn_by_hand(scored.logits[line, 0], rows[line], prompt))


def test_native_walks_draw_by_the_settings_that_rules_leave() -> None:
    """Not by those that a drafter's native call has kept the addresses of."""
    context = context_of(ROWS[:2] * 40)
    assert ContextAddresses.of(context) is ContextAddresses.of(context)
    tree = tree_of(CHAIN, context)
    ruled, drawn_by = HistoryRules(win_len=16).apply(tree, scored_of(tree, torch.float32), context)
    native = native_walk.match(tree, ruled, drawn_by)
    assert torch.equal(native.next_roots, torch_walk.match(tree, ruled, drawn_by).next_roots)


SIZES, EOS = (3, 4, 2), 9


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_each_step_of_a_frame_draws_its_own_tokens(shape: TreeShape) -> None:
    allowed = [{0, 1, 2}, {3, 4, 5, 6}, {7, 8}]
    context = context_of(ROWS)
    tree = tree_of(shape, context)
    scored = scored_of(tree, torch.float64)
    rules = HistoryRules(allowed=AllowedByStep.by_codebook(SIZES, EOS))
    ruled = rules.apply(tree, scored, context)[0].logits
    for line, row in enumerate(ROWS):
        for node in range(len(shape)):
            position = len(row.said) + shape.depths[node]
            wanted = allowed[position % 3] | ({EOS} if position >= 3 else set())
            kept = ruled[line, node].isfinite()
            assert set(kept.nonzero()[:, 0].tolist()) == wanted
            assert torch.equal(ruled[line, node][kept], scored.logits[line, node][kept])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_no_end_comes_before_so_many_tokens(shape: TreeShape) -> None:
    least, context = 6, context_of(ROWS)
    tree = tree_of(shape, context)
    scored = scored_of(tree, torch.float64)
    before = scored.logits.clone()
    ruled = HistoryRules(allowed=NoEarlyEnd(least, EOS)).apply(tree, scored, context)[0].logits
    for line, row in enumerate(ROWS):
        for node in range(len(shape)):
            is_early = len(row.said) + shape.depths[node] < least
            assert (ruled[line, node, EOS] == -torch.inf) == is_early
            others = torch.arange(VOCABULARY) != EOS
            assert torch.equal(ruled[line, node][others], before[line, node][others])
            assert is_early or ruled[line, node, EOS] == before[line, node, EOS]


def test_rules_are_known_before_anything_is_computed() -> None:
    assert HistoryRules.of(RequestOptions(), None) == NO_RULES
    greedy = RequestOptions(temperature=0.0, ras_win_len=9, repetition_penalty=1.1)
    assert HistoryRules.of(greedy, None) == HistoryRules(penalises=True)
    windows = [HistoryRules.of(RequestOptions(ras_win_len=most), None).win_len for most in (1, 2, 3, 8, 100)]
    assert windows == [1, 2, 4, 8, 128]
    allowed = AllowedByStep.by_codebook(SIZES, EOS)
    together = [HistoryRules(win_len=4, allowed=allowed), HistoryRules(penalises=True, allowed=allowed)]
    assert HistoryRules.together(together) == HistoryRules(True, 4, allowed)
    context = context_of(ROWS)
    scored = Scored(torch.zeros(0), torch.zeros(0))
    assert NO_RULES.apply(tree_of(CHAIN, context), scored, context) == (scored, context)


# The law of what is spoken under rules, counted over all that can be said.

FEW, SPOKEN, COUNT = 5, 4, 20_000
TARGET, DRAFT = make_tables(FEW, seed=0)
MARKOV_KIND = (0.9, 4, 0.85)
RULED = {
    "penalty": Row(penalty=1.8),
    "aware": Row(win_len=2, max_num_repeat=1),
    "both": Row(penalty=1.3, win_len=3, max_num_repeat=2),
}


def law_of(row: Row, first: int) -> Tensor:
    """Probabilities [V, V, V] of the tokens `first` to `first + 2` after the token 0."""
    law = torch.zeros(FEW, FEW, FEW, dtype=torch.float64)

    def speak_on(before: list[int], chance: float) -> None:
        if len(before) == first + 4:
            law[tuple(before[-3:])] += chance
            return
        logits = penalised_by_hand(TARGET[before[-1]].clone(), row, before)
        settings = settings_of(1, MARKOV_KIND)
        probs = probabilities(logits[None, None], settings)[0, 0]
        if row.win_len:
            window = before[-row.win_len :]
            is_often = torch.tensor([window.count(one) >= row.max_num_repeat for one in range(FEW)])
            lost = probs[is_often].sum()
            probs = torch.where(is_often, 0.0, probs) + lost * logits.softmax(0)
        for token in range(FEW):
            if probs[token] > 0:
                speak_on([*before, token], chance * float(probs[token]))

    speak_on([0], 1.0)
    return law


def excess_of(row: Row, drafter: Drafter, dtype: torch.dtype, rules: HistoryRules) -> float:
    """The worse of two joint distributions of three tokens: of the first ones, and of later ones."""
    backbone, settings = MarkovBackbone(TARGET.to(dtype)), settings_of(COUNT, MARKOV_KIND)
    spoken = speak(
        backbone,
        drafter,
        RatioVerifier(),
        settings,
        SPOKEN,
        rules=rules,
        repetition=repetition_of((row,))[torch.zeros(COUNT, dtype=torch.int64)],
    ).tokens
    return max(excess(trigrams(spoken, first, FEW), law_of(row, first)) for first in (0, SPOKEN - 3))


def rules_of(row: Row) -> HistoryRules:
    return HistoryRules(row.penalty > 1, row.win_len)


DTYPES = [pytest.param(torch.float32, id="native"), pytest.param(torch.float64, id="torch")]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("draft", ["none", "chain", "twins", "best of bushy"])
@pytest.mark.parametrize("row", RULED.values(), ids=RULED.keys())
def test_ratio_speaks_as_the_rules_have_it(row: Row, draft: str, dtype: torch.dtype) -> None:
    """In distribution; false-alarm rate 1e-6 of each of two."""
    drafters: dict[str, Drafter] = {
        "none": NullDrafter(),
        "chain": SampledDrafter(DRAFT.to(dtype), CHAIN),
        "twins": SampledDrafter(DRAFT.to(dtype), TWINS),
        "best of bushy": BestDrafter(DRAFT.to(dtype), BUSHY),
    }
    assert excess_of(row, drafters[draft], dtype, rules_of(row)) < 1


class RootsOnly(HistoryRules):
    """Gives every node the history of its root."""

    def apply(self, tree: TokenTree, scored: Scored, context: Context) -> tuple[Scored, Context]:
        nodes = [
            super(RootsOnly, self).apply(
                TokenTree(tree.tokens[:, :1]), Scored(scored.logits[:, [node]], scored.hidden), context
            )
            for node in range(tree.num_nodes)
        ]
        logits = torch.cat([one.logits for one, _ in nodes], dim=1)
        return Scored(logits, scored.hidden), nodes[0][1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", RULED.values(), ids=RULED.keys())
def test_rules_that_forget_the_path_are_noticed(row: Row, dtype: torch.dtype) -> None:
    drafter, rules = SampledDrafter(DRAFT.to(dtype), CHAIN), rules_of(row)
    wrong = RootsOnly(rules.penalises, rules.win_len)
    assert excess_of(row, drafter, dtype, wrong) > 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", RULED.values(), ids=RULED.keys())
def test_match_speaks_the_same_with_every_draft(row: Row, dtype: torch.dtype) -> None:
    drafters = (
        NullDrafter(),
        SampledDrafter(DRAFT.to(dtype), CHAIN),
        BestDrafter(DRAFT.to(dtype), TWINS),
        SampledDrafter(DRAFT.to(dtype), BUSHY),
    )
    spoken = [
        speak(
            MarkovBackbone(TARGET.to(dtype)),
            drafter,
            MatchVerifier(),
            settings_of(300, MARKOV_KIND, (0.0, 0, 1.0)),
            30,
            rules=rules_of(row),
            repetition=repetition_of((row,))[torch.zeros(300, dtype=torch.int64)],
        )
        for drafter in drafters
    ]
    assert all(torch.equal(one.tokens, spoken[0].tokens) for one in spoken)
    assert all(one.committed_per_step > 1.2 for one in spoken[1:])
