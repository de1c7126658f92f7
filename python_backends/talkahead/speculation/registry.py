"""What the names in `pairs` stand for, and what each promises. A new method is one more entry in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from talkahead.errors import BadRequest
from talkahead.speculation.biased_verifier import BiasedVerifier
from talkahead.speculation.contracts import Preserves, Verifier
from talkahead.speculation.groups_verifier import GroupsVerifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.pairs import VERIFIER_OPTIONS
from talkahead.speculation.ratio_verifier import RatioVerifier
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.speculation.tolerance_verifier import ToleranceVerifier
from talkahead.speculation.topk_verifier import TopkVerifier
from talkahead.speculation.verifier_options import VerifierOptions


@dataclass(frozen=True)
class TargetTokens:
    """What verifiers know of the target's vocabulary.

    Args:
        eos: the end of speech.
        groups: by their cosine threshold; the first is the default.
    """

    eos: int
    groups: Mapping[float, SimilarityGroups] = field(default_factory=dict)


@dataclass(frozen=True)
class VerifierMethod:
    """One name of a verifier.

    Args:
        preserves: what it promises about the tokens.
        options: the request parameters that it reads.
        build: makes it, from checked options.
        reads_probs: it compares q with the distribution that a draft was drawn from.
    """

    preserves: Preserves
    options: tuple[str, ...]
    build: Callable[[VerifierOptions, TargetTokens], Verifier]
    reads_probs: bool = False


def _groups(options: VerifierOptions, target: TargetTokens) -> Verifier:
    similarity = options.similarity
    if similarity is None and target.groups:
        similarity = next(iter(target.groups))
    if similarity is None or similarity not in target.groups:
        known = ", ".join(f"{one:g}" for one in target.groups) or "nothing: this voice has no groups"
        raise BadRequest("similarity", options.similarity, known)
    return GroupsVerifier(target.groups[similarity])


VERIFIERS: dict[str, VerifierMethod] = {
    "match": VerifierMethod(
        MatchVerifier.preserves, VERIFIER_OPTIONS["match"], lambda options, target: MatchVerifier()
    ),
    "ratio": VerifierMethod(
        RatioVerifier.preserves,
        VERIFIER_OPTIONS["ratio"],
        lambda options, target: RatioVerifier(),
        reads_probs=True,
    ),
    "groups": VerifierMethod(GroupsVerifier.preserves, VERIFIER_OPTIONS["groups"], _groups, reads_probs=True),
    "tolerance": VerifierMethod(
        ToleranceVerifier.preserves,
        VERIFIER_OPTIONS["tolerance"],
        lambda options, target: ToleranceVerifier(options.tolerance, target.eos),
    ),
    "topk": VerifierMethod(
        TopkVerifier.preserves,
        VERIFIER_OPTIONS["topk"],
        lambda options, target: TopkVerifier(options.top_k_verify, options.eos_top_k, target.eos),
    ),
    "biased": VerifierMethod(
        BiasedVerifier.preserves,
        VERIFIER_OPTIONS["biased"],
        lambda options, target: BiasedVerifier(options.bias),
        reads_probs=True,
    ),
}
