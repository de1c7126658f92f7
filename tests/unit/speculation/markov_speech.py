"""An exact target: a Markov model whose every probability is known, drafts of it, and a loop that speaks.

Shapes: B rows, N nodes, V vocabulary, L tokens spoken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored, Verifier
from talkahead.speculation.draws import stream_keys, trial_streams
from talkahead.speculation.history_rules import NO_RULES, HistoryRules
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.repetition_settings import RepetitionSettings
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import SamplingSettings, draw, probabilities
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree, TreeShape
from torch import Tensor

CHAIN = TreeShape((-1, 0, 1, 2))
BUSHY = TreeShape((-1, 0, 0, 1, 1, 2))
TWINS = TreeShape((-1, 0, 0, 0, 1, 2, 3, 5))
SHAPES = {"root alone": ROOT_ALONE, "chain": CHAIN, "bushy": BUSHY, "twins": TWINS}

_Z_AT_1E6 = 4.7534
"""A standard normal number exceeds it once in a million."""


class MarkovBackbone:
    """A `Backbone` that knows only the last token: `table` [V, V] holds the logits of what follows each.

    The last token of the vocabulary ends a segment, if it is ever likely. Prompts are read as the token 0.
    """

    max_positions = 64
    hidden_size = 1
    device = torch.device("cpu")

    def __init__(self, table: Tensor, num_slots: int = 1) -> None:
        self.table = table
        self.num_slots = num_slots
        self.vocab_size = len(table)
        self.eos = len(table) - 1
        self.dtype = table.dtype

    def prefill(
        self, slots: list[int], prompts: Tensor, lengths: list[int], *, all_hidden: bool = False
    ) -> Scored:
        logits = self.table[torch.zeros((len(slots), 1), dtype=torch.int64)]
        return Scored(logits, torch.zeros((len(slots), 1, 1), dtype=self.dtype))

    def score(self, tree: TokenTree, rows: Rows) -> Scored:
        logits = self.table[tree.ids]
        return Scored(logits, torch.zeros((*logits.shape[:2], 1), dtype=self.dtype))

    def commit(self, accepted: Accepted, shape: TreeShape, rows: Rows) -> None:
        return None

    def aligned(self, slot: int, first: int, beyond: int) -> None:
        return None

    def release(self, slot: int) -> None:
        return None


def make_tables(vocabulary: int, seed: int, difference: float = 0.8) -> tuple[Tensor, Tensor]:
    """Logits [V, V] of a target and of a draft that has learnt it badly."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn((vocabulary, vocabulary), generator=generator, dtype=torch.float64)
    noise = torch.randn((vocabulary, vocabulary), generator=generator, dtype=torch.float64)
    return table, table + difference * noise


class SampledDrafter(NullDrafter):
    """Draws each node from the draft model. A first child shares its noise with the target (Gumbel coupling).

    Siblings are drawn independently, or, `is_distinct`, each without those before it.
    """

    def __init__(self, table: Tensor, shape: TreeShape, is_distinct: bool = False) -> None:
        self._table = table
        self._shape = shape
        self._is_distinct = is_distinct

    def propose(self, context: Context) -> TokenTree:
        rows, vocabulary = len(context.roots), len(self._table)
        tokens = context.roots.repeat(1, len(self._shape))
        probs = torch.zeros((rows, len(self._shape), vocabulary), dtype=self._table.dtype)
        for parent, children in enumerate(self._shape.children):
            logits = self._table[tokens[:, parent, None]]
            places = context.positions[:, None] + self._shape.depths[parent] + 1
            for stream, child in enumerate(children):
                keys = trial_streams(context.keys, len(children))[:, stream]
                tokens[:, child] = draw(logits, context.settings, keys, places)[:, 0]
                probs[:, child] = probabilities(logits, context.settings)[:, 0]
                if self._is_distinct:
                    logits = logits.scatter(2, tokens[:, child, None, None], -torch.inf)
        return TokenTree(tokens[..., None], self._shape, probs)


class BestDrafter(NullDrafter):
    """The draft model's best tokens, not drawn at random."""

    def __init__(self, table: Tensor, shape: TreeShape) -> None:
        self._best = table.argsort(dim=1, descending=True)
        self._shape = shape

    def propose(self, context: Context) -> TokenTree:
        tokens = context.roots.repeat(1, len(self._shape))
        for parent, children in enumerate(self._shape.children):
            for rank, child in enumerate(children):
                tokens[:, child] = self._best[tokens[:, parent], rank]
        return TokenTree(tokens[..., None], self._shape)


def settings_of(rows: int, *kinds: tuple[float, int, float]) -> SamplingSettings:
    """Temperature, top-k and top-p of `rows` rows, which take turns with the kinds."""
    temperature, top_k, top_p = zip(*(kinds[row % len(kinds)] for row in range(rows)), strict=True)
    return SamplingSettings.of(
        torch.tensor(temperature, dtype=torch.float64),
        torch.tensor(top_k),
        torch.tensor(top_p, dtype=torch.float64),
    )


def keys_of(rows: int, seed: int = 0) -> Tensor:
    return stream_keys(torch.arange(rows) + 1_000_003 * seed, torch.zeros(rows, dtype=torch.int64))


def context_of(
    roots: Tensor,
    positions: Tensor,
    keys: Tensor,
    settings: SamplingSettings,
    frames: Tensor | None = None,
    repetition: RepetitionSettings | None = None,
) -> Context:
    nothing = torch.zeros(len(roots), 0)
    frames = nothing if frames is None else frames
    rows = Rows.of(range(len(roots)))
    return Context(rows, roots, positions, nothing, frames, keys, settings, repetition=repetition)


@dataclass(frozen=True)
class Spoken:
    """Tokens int64 [B, L] of each row, and the mean that a step committed, root included."""

    tokens: Tensor
    committed_per_step: float


def speak(
    backbone: MarkovBackbone,
    drafter: Drafter,
    verifier: Verifier,
    settings: SamplingSettings,
    length: int,
    seed: int = 0,
    rules: HistoryRules = NO_RULES,
    repetition: RepetitionSettings | None = None,
) -> Spoken:
    """Every row starts from the token 0, which is not among those returned."""
    rows = len(settings.sharpness)
    roots, positions = torch.zeros((rows, 1), dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)
    tokens = torch.zeros((rows, length + 1), dtype=torch.int64)
    num_committed = num_steps = 0
    while int(positions.min()) < length:
        context = context_of(roots, positions, keys_of(rows, seed), settings, tokens[..., None], repetition)
        tree = drafter.propose(context)
        scored = backbone.score(tree, context.rows)
        accepted = verifier.accept(tree, *rules.apply(tree, scored, context))
        added = tokens_of(tree, accepted)
        for column in range(added.shape[1]):
            places = positions + 1 + column
            is_new = (column < accepted.counts) & (places <= length)
            tokens[is_new, places[is_new]] = added[is_new, column]
        roots, positions = accepted.next_roots, positions + accepted.counts
        num_committed += int(accepted.counts.sum())
        num_steps += rows
    return Spoken(tokens[:, 1:], num_committed / num_steps)


def tokens_of(tree: TokenTree, accepted: Accepted) -> Tensor:
    """What a step adds to each row, int64 [B, M]: the accepted tokens, then the next root."""
    rows = torch.arange(tree.num_rows)
    tokens = tree.tokens[rows[:, None], accepted.path, 0].roll(-1, dims=1)
    tokens[rows, accepted.counts - 1] = accepted.next_roots[:, 0]
    return tokens


def transitions(table: Tensor, kind: tuple[float, int, float]) -> Tensor:
    """Probabilities [V, V] of what follows each token."""
    return probabilities(table[:, None].double(), settings_of(len(table), kind))[:, 0]


def joint(matrix: Tensor, first: int, count: int) -> Tensor:
    """Probabilities [V, .., V] of the tokens `first` to `first + count - 1`, from 0, of `speak`."""
    law = torch.linalg.matrix_power(matrix, first + 1)[0]
    for _ in range(count - 1):
        law = law[..., None] * matrix
    return law


def excess(counts: Tensor, probs: Tensor) -> float:
    """Chi-square of counts against probabilities, over what a true source exceeds once in a million.

    Above 1: a false alarm, of rate 1e-6, or another distribution. Outcomes expected fewer than 5 times count
    as one. The bound is Wilson and Hilferty's (1931), which lies above the true one.
    """
    counts, expected = counts.flatten().double(), probs.flatten() * counts.sum()
    if bool(counts[expected == 0].any()):
        return math.inf
    is_rare = expected < 5
    counts = torch.cat([counts[~is_rare], counts[is_rare].sum()[None]])
    expected = torch.cat([expected[~is_rare], expected[is_rare].sum()[None]])
    counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = len(counts) - 1
    if freedom <= 0:
        return 0.0
    part = 2 / (9 * freedom)
    limit = freedom * (1 - part + _Z_AT_1E6 * math.sqrt(part)) ** 3
    return float(((counts - expected) ** 2 / expected).sum()) / limit


def trigrams(tokens: Tensor, first: int, vocabulary: int) -> Tensor:
    """Counts [V, V, V] of the tokens `first` to `first + 2` over the rows, which are independent."""
    codes = (tokens[:, first : first + 3] * torch.tensor([vocabulary**2, vocabulary, 1])).sum(1)
    return torch.bincount(codes, minlength=vocabulary**3).view(vocabulary, vocabulary, vocabulary)
