"""The rows: which methods are measured, how thoroughly, and under which names they are asked for.

After the tables of three papers: heads and tolerance (Li et al. 2025), groups and bias on a draft model
(Yanuka et al. 2025), modules and top-k (Tian et al. 2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perf.speculation.installation import Installation, Similarity
from perf.speculation.methods import ACCEPT_ALL, PLAIN, Likeness, Method, Talker

HEADS = ("heads", "heads-6")
BLIND_HEADS = "heads-blind"
"""As in the paper: told no token, and here with a small tree."""
MTP = ("mtp-1", "mtp")
BLIND = "mtp-blind"
DRAFT_LM = "draft_lm"
DEPTHS = ("draft_lm-1", "draft_lm-2", "draft_lm-3")
"""Of so many of the talker's layers, which learned together and equally long."""
TOLERANCES = (1, 2, 3, 4)
TOP_KS = (2, 4, 8, 16, 32, 64, 128)
BIASES = (0.1, 0.2, 0.3, 0.4, 0.5)
LENGTHS = (1, 2, 3, 4, 5, 6)
NODES_TOLERANCE = 3
"""Trees are compared, and one chosen, with this tolerance."""
HEADLINE_TOP_K = 8
CARELESS_TOP_K = 32
"""Of the ablation that lets the end of speech pass like any token."""
HEADLINE_BIAS = 0.3
HEADLINE_SIZE = 10.0
MEL_SIZES = (3.0, 10.0, 40.0)
SWAP_SIZES = (1.5, 5.0, 10.0, 40.0)
"""Mean sizes of groups."""


class Part(StrEnum):
    """Names for `--rows`."""

    PLAIN = "plain"
    NODES = "nodes"
    HEADS = "heads"
    TUNED = "tuned"
    MTP = "mtp"
    ABLATION = "ablation"
    DRAFT_LM = "draft_lm"
    BIAS = "bias"
    GROUPS = "groups"
    MEL = "mel"
    LENGTH = "length"
    DEPTH = "depth"
    SWAP = "swap"
    SMALLER = "smaller"


@dataclass(frozen=True)
class Plan:
    """One method to measure.

    Args:
        is_headline: on all sentences and numbers of streams; others on fewer sentences and, but for trees,
            with one stream.
        is_heard: quality is measured.
        is_timed: speed is measured.
    """

    part: Part
    method: Method
    is_headline: bool = False
    is_heard: bool = True
    is_timed: bool = True


def plans(found: Installation) -> list[Plan]:
    """Every row that what is installed allows, each method once; trees first, as other rows go by them."""
    kept: dict[str, Plan] = {}
    for plan in (*tree_plans(found), *_all(found)):
        if found.has(plan.method):
            kept.setdefault(plan.method.title, plan)
    return list(kept.values())


def missing(found: Installation) -> list[str]:
    """The methods that something is missing for."""
    return list(dict.fromkeys(one.method.title for one in _all(found) if not found.has(one.method)))


def chosen(candidates: Sequence[Plan], names: Sequence[str], *, quick: bool) -> list[Plan]:
    """Rows of the parts, or with the titles, that are named; all of them without a name. Plain decoding
    is always among them: everything is compared with it.

    Raises:
        ValueError: a name is no part and in no title.
    """
    for name in names:
        if not any(_answers(plan, name) for plan in candidates):
            raise ValueError(f"rows: {name!r}, allowed: {', '.join(Part)}, or what a row's title begins with")
    wanted = [plan for plan in candidates if not names or any(_answers(plan, name) for name in names)]
    if quick and not names:
        wanted = [plan for plan in wanted if plan.is_headline]
    first = [plan for plan in candidates if plan.part is Part.PLAIN]
    return first + [plan for plan in wanted if plan.part is not Part.PLAIN]


def _answers(plan: Plan, name: str) -> bool:
    """A part's name stands for that part alone, though titles begin with it."""
    return plan.part == name if name in set(Part) else plan.method.title.startswith(name)


def _all(found: Installation) -> Iterator[Plan]:
    yield Plan(Part.PLAIN, PLAIN, is_headline=True)
    yield from _heads(found)
    yield from _modules()
    yield from _draft_model()
    if found.similarities(Likeness.EMBEDDING):
        yield from _groups(found)
    yield Plan(Part.SMALLER, Method(talker=Talker.SMALLER), is_headline=True)


def _heads(found: Installation) -> Iterator[Plan]:
    for draft in HEADS:
        yield Plan(Part.HEADS, Method(draft, "match"), is_headline=True)
        for tau in TOLERANCES:
            method = Method(draft, "tolerance", {"tolerance": tau})
            yield Plan(Part.HEADS, method, is_headline=tau == NODES_TOLERANCE)
    for name, options in (("match", {}), ("tolerance", {"tolerance": NODES_TOLERANCE})):
        yield Plan(Part.HEADS, Method(BLIND_HEADS, name, {**options, "nodes": 8}))
    yield Plan(Part.TUNED, Method(talker=Talker.TUNED), is_headline=True, is_timed=False)
    for draft in HEADS:
        for tau in TOLERANCES:
            tuned = Method(draft, "tolerance", {"tolerance": tau}, Talker.TUNED)
            yield Plan(Part.TUNED, tuned, is_headline=tau in (1, NODES_TOLERANCE) and draft == HEADS[0])


def tree_plans(found: Installation) -> Iterator[Plan]:
    """Speed by the number of nodes, which the rows of heads take theirs from."""
    for draft in HEADS:
        method = Method(draft, "tolerance", {"tolerance": NODES_TOLERANCE})
        if found.has(method):
            for nodes in found.tree_sizes(method):
                yield Plan(Part.NODES, method.having(nodes=nodes), is_heard=False)


def _modules() -> Iterator[Plan]:
    for draft in MTP:
        yield Plan(Part.MTP, Method(draft, "match"), is_headline=draft == MTP[-1])
        yield Plan(Part.MTP, Method(draft, "ratio"))
        for k in TOP_KS:
            method = Method(draft, "topk", {"top_k_verify": k})
            yield Plan(Part.MTP, method, is_headline=k == HEADLINE_TOP_K and draft == MTP[-1])
    for k in (HEADLINE_TOP_K, TOP_KS[-1]):
        yield Plan(Part.MTP, Method(BLIND, "topk", {"top_k_verify": k}))
    yield Plan(Part.ABLATION, Method(DRAFT_LM, ACCEPT_ALL))
    for draft in MTP:
        careless = {"top_k_verify": CARELESS_TOP_K, "eos_top_k": CARELESS_TOP_K}
        yield Plan(Part.ABLATION, Method(draft, ACCEPT_ALL))
        yield Plan(Part.ABLATION, Method(draft, "topk", careless))


def _draft_model() -> Iterator[Plan]:
    yield Plan(Part.DRAFT_LM, Method(DRAFT_LM, "match"), is_headline=True)
    yield Plan(Part.DRAFT_LM, Method(DRAFT_LM, "ratio"), is_headline=True)
    for draft in DEPTHS:
        yield Plan(Part.DEPTH, Method(draft, "match"), is_heard=False)
    for bias in BIASES:
        yield Plan(Part.BIAS, Method(DRAFT_LM, "biased", {"bias": bias}), is_headline=bias == HEADLINE_BIAS)


def _groups(found: Installation) -> Iterator[Plan]:
    known = found.similarities(Likeness.EMBEDDING)
    headline = near(known, HEADLINE_SIZE)
    for one in known:
        method = Method(DRAFT_LM, "groups", {"similarity": one.threshold})
        yield Plan(Part.GROUPS, method, is_headline=one == headline)
    for one in found.similarities(Likeness.MEL):
        method = Method(DRAFT_LM, "groups", {"similarity": one.threshold}, likeness=Likeness.MEL)
        yield Plan(Part.MEL, method)
    grouped = Method(DRAFT_LM, "groups", {"similarity": headline.threshold})
    for length in LENGTHS:
        yield Plan(Part.LENGTH, grouped.having(draft_length=length), is_heard=False)
    for size in SWAP_SIZES:
        yield Plan(Part.SWAP, Method(swapped_within=near(known, size).threshold), is_timed=False)


def near(known: Sequence[Similarity], mean_size: float) -> Similarity:
    """The groups whose mean size is nearest."""
    return min(known, key=lambda one: abs(one.mean_size - mean_size))
