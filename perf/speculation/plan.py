"""The rows: which methods are measured, how thoroughly, and under which names they are asked for.

After the tables of three papers: heads and tolerance (Li et al. 2025), groups and bias on a draft model
(Yanuka et al. 2025), modules and top-k (Tian et al. 2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perf.speculation.installation import Installation, Similarity
from perf.speculation.methods import ACCEPT_ALL, PLAIN, Method, Talker

HEADS, MORE_HEADS = "heads", "heads-6"
"""The latter where its trees are others: with few nodes neither draft looks after the fourth token."""
BLIND_HEADS = "heads-blind"
"""As Li et al. propose them: told no token, and taught by plain cross-entropy; here with a small tree."""
BLIND_NODES = 8
MTP = ("mtp-1", "mtp")
BLIND_MTP = ("mtp-1-blind", "mtp-blind")
"""As Tian et al. propose them: likewise, and the losses of all modules count the same."""
DRAFT_LM = "draft_lm"
DEPTHS = ("draft_lm-1", "draft_lm-2", DRAFT_LM)
"""Of so many of the talker's layers, which learned together and equally long."""
TOLERANCES = (1, 2, 3, 4)
TOP_KS = (2, 4, 8, 16, 32, 64, 128, 256)
BLIND_TOP_KS = (32, 128, 256)
"""Those of the paper's table, 100, 500 and 1,000 of 65,536, as shares of the vocabulary."""
BIASES = (0.1, 0.2, 0.3, 0.4, 0.5)
LENGTHS = (1, 2, 3, 4, 5, 6)
NODES_TOLERANCE = 3
"""Trees are compared, and one chosen, with this tolerance."""
HEADLINE_TOP_K = 8
CARELESS_TOP_K = BLIND_TOP_KS[1]
"""Of the ablation that lets the end of speech pass like any token."""
HEADLINE_BIAS = 0.3
HEADLINE_SIZE = 10.0
SWAP_SIZES = (1.5, 5.0, 10.0, 40.0)
"""Mean sizes of groups."""


class Part(StrEnum):
    """Names for `--rows`."""

    PLAIN = "plain"
    NODES = "nodes"
    HEADS = "heads"
    DEEPER = "deeper"
    TUNED = "tuned"
    MTP = "mtp"
    ABLATION = "ablation"
    DRAFT_LM = "draft_lm"
    BIAS = "bias"
    GROUPS = "groups"
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
        is_heard_whole: quality is measured on all sentences, headline or not.
    """

    part: Part
    method: Method
    is_headline: bool = False
    is_heard: bool = True
    is_timed: bool = True
    is_heard_whole: bool = False


def plans(found: Installation) -> list[Plan]:
    """Every row that what is installed allows, each method once; trees first, as other rows go by them."""
    kept: dict[str, Plan] = {}
    for plan in (*tree_plans(found), *_all(found)):
        if found.has(plan.method):
            kept.setdefault(plan.method.title, plan)
    return list(kept.values())


@dataclass(frozen=True)
class Absent:
    """Something that rows of a part wait for, by the name of its recipe: nobody has trained it here."""

    part: str
    name: str


def absent(found: Installation) -> list[Absent]:
    """What is missing for rows of each part."""
    lost = (Absent(str(plan.part), plan.method.needs) for plan in _all(found) if not found.has(plan.method))
    return list(dict.fromkeys(lost))


def same_trees(found: Installation) -> list[int]:
    """Nodes with which `MORE_HEADS` has the trees of `HEADS`, whatever the draws: such rows are left out."""
    if not found.has(Method(MORE_HEADS)):
        return []
    differing = {*_differing(found, 1), *_differing(found, NODES_TOLERANCE)}
    return [nodes for nodes in _sizes(found, NODES_TOLERANCE) if nodes not in differing]


def _differing(found: Installation, tolerance: int) -> list[int]:
    """Nodes with which the trees of the two differ, where both are there."""
    own, other = (_method(draft, tolerance) for draft in (HEADS, MORE_HEADS))
    if not (found.has(own) and found.has(other)):
        return []
    trees, others = found.trees(own), found.trees(other)
    return [nodes for nodes in trees if nodes in others and trees[nodes] != others[nodes]]


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
    if found.similarities():
        yield from _groups(found)
    yield Plan(Part.SMALLER, Method(talker=Talker.SMALLER), is_headline=True)


def _heads(found: Installation) -> Iterator[Plan]:
    yield Plan(Part.HEADS, Method(HEADS, "match"), is_headline=True)
    for tau in TOLERANCES:
        yield Plan(Part.HEADS, _method(HEADS, tau), is_headline=tau == NODES_TOLERANCE)
    yield Plan(Part.HEADS, Method(BLIND_HEADS, "match", {"nodes": BLIND_NODES}))
    for tau in (1, NODES_TOLERANCE):
        yield Plan(Part.HEADS, _method(BLIND_HEADS, tau).having(nodes=BLIND_NODES))
    yield from _deeper(found)
    yield Plan(Part.TUNED, Method(talker=Talker.TUNED), is_headline=True, is_timed=False)
    for tau in TOLERANCES:
        tuned = Method(HEADS, "tolerance", {"tolerance": tau}, Talker.TUNED)
        yield Plan(Part.TUNED, tuned, is_headline=tau in (1, NODES_TOLERANCE))


def _deeper(found: Installation) -> Iterator[Plan]:
    """Six heads and four with trees that are deep enough to tell them apart; their tokens are plain's."""
    if not found.has(Method(MORE_HEADS)):
        yield Plan(Part.DEEPER, Method(MORE_HEADS), is_heard=False)
    for nodes in _differing(found, 1):
        for draft in (HEADS, MORE_HEADS):
            yield Plan(Part.DEEPER, Method(draft, "match", {"nodes": nodes}), is_heard=False)


def _method(draft: str, tolerance: int) -> Method:
    return Method(draft, "tolerance", {"tolerance": tolerance})


def tree_plans(found: Installation) -> Iterator[Plan]:
    """Speed by the number of nodes, which the rows of heads take theirs from."""
    for draft, sizes in (
        (HEADS, _sizes(found, NODES_TOLERANCE)),
        (MORE_HEADS, _differing(found, NODES_TOLERANCE)),
    ):
        for nodes in sizes:
            yield Plan(Part.NODES, _method(draft, NODES_TOLERANCE).having(nodes=nodes), is_heard=False)


def _sizes(found: Installation, tolerance: int) -> list[int]:
    method = _method(HEADS, tolerance)
    return list(found.trees(method)) if found.has(method) else []


def _modules() -> Iterator[Plan]:
    for draft in MTP:
        yield Plan(Part.MTP, Method(draft, "match"), is_headline=draft == MTP[-1])
        yield Plan(Part.MTP, Method(draft, "ratio"))
        for k in TOP_KS:
            method = Method(draft, "topk", {"top_k_verify": k})
            is_headline = k == HEADLINE_TOP_K and draft == MTP[-1]
            yield Plan(Part.MTP, method, is_headline, is_heard_whole=k == CARELESS_TOP_K)
    for draft in BLIND_MTP:
        for k in BLIND_TOP_KS:
            method = Method(draft, "topk", {"top_k_verify": k})
            yield Plan(Part.MTP, method, is_heard_whole=k == CARELESS_TOP_K)
    yield Plan(Part.ABLATION, Method(DRAFT_LM, ACCEPT_ALL))
    for draft in (*MTP, *BLIND_MTP):
        careless = {"top_k_verify": CARELESS_TOP_K, "eos_top_k": CARELESS_TOP_K}
        yield Plan(Part.ABLATION, Method(draft, ACCEPT_ALL))
        # Few sentences differ from those with the check: all of them are needed to show anything.
        yield Plan(Part.ABLATION, Method(draft, "topk", careless), is_heard_whole=True)


def _draft_model() -> Iterator[Plan]:
    yield Plan(Part.DRAFT_LM, Method(DRAFT_LM, "match"), is_headline=True)
    yield Plan(Part.DRAFT_LM, Method(DRAFT_LM, "ratio"), is_headline=True)
    for draft in DEPTHS:
        yield Plan(Part.DEPTH, Method(draft, "match"), is_heard=False)
    for bias in BIASES:
        yield Plan(Part.BIAS, Method(DRAFT_LM, "biased", {"bias": bias}), is_headline=bias == HEADLINE_BIAS)


def _groups(found: Installation) -> Iterator[Plan]:
    known = found.similarities()
    headline = near(known, HEADLINE_SIZE)
    for one in known:
        method = Method(DRAFT_LM, "groups", {"similarity": one.threshold})
        yield Plan(Part.GROUPS, method, is_headline=one == headline)
    grouped = Method(DRAFT_LM, "groups", {"similarity": headline.threshold})
    for length in LENGTHS:
        yield Plan(Part.LENGTH, grouped.having(draft_length=length), is_heard=False)
    for size in SWAP_SIZES:
        yield Plan(Part.SWAP, Method(swapped_within=near(known, size).threshold), is_timed=False)


def near(known: Sequence[Similarity], mean_size: float) -> Similarity:
    """The groups whose mean size is nearest."""
    return min(known, key=lambda one: abs(one.mean_size - mean_size))
