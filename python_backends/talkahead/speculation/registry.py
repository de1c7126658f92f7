"""Names that a request may use, what each promises, and which go together. A new method is one more entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from talkahead.config import ParameterValue
from talkahead.errors import BadRequest
from talkahead.speculation.biased_verifier import BiasedVerifier
from talkahead.speculation.contracts import Drafter, Preserves, Verifier
from talkahead.speculation.groups_verifier import GroupsVerifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
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
    """

    preserves: Preserves
    options: tuple[str, ...]
    build: Callable[[VerifierOptions, TargetTokens], Verifier]


def _groups(options: VerifierOptions, target: TargetTokens) -> Verifier:
    similarity = options.similarity
    if similarity is None and target.groups:
        similarity = next(iter(target.groups))
    if similarity is None or similarity not in target.groups:
        known = ", ".join(f"{one:g}" for one in target.groups) or "nothing: this voice has no groups"
        raise BadRequest("similarity", options.similarity, known)
    return GroupsVerifier(target.groups[similarity])


DRAFTERS: dict[str, Callable[[], Drafter]] = {"none": NullDrafter}

VERIFIERS: dict[str, VerifierMethod] = {
    "match": VerifierMethod(MatchVerifier.preserves, (), lambda options, target: MatchVerifier()),
    "ratio": VerifierMethod(RatioVerifier.preserves, (), lambda options, target: RatioVerifier()),
    "groups": VerifierMethod(GroupsVerifier.preserves, ("similarity",), _groups),
    "tolerance": VerifierMethod(
        ToleranceVerifier.preserves,
        ("tolerance",),
        lambda options, target: ToleranceVerifier(options.tolerance, target.eos),
    ),
    "topk": VerifierMethod(
        TopkVerifier.preserves,
        ("top_k_verify", "eos_top_k"),
        lambda options, target: TopkVerifier(options.top_k_verify, options.eos_top_k, target.eos),
    ),
    "biased": VerifierMethod(
        BiasedVerifier.preserves, ("bias",), lambda options, target: BiasedVerifier(options.bias)
    ),
}

PAIRS: dict[str, tuple[str, ...]] = {
    "none": ("match",),
    "heads": ("match", "tolerance", "topk"),
    "mtp": tuple(VERIFIERS),
    "draft_lm": tuple(VERIFIERS),
}
"""The verifiers that make sense with each drafter.

Without a draft all are the same. `heads` proposes its best guesses and draws none: `ratio` would accept them
as often as `match`, which promises more, and `groups` and `biased` have no p to compare q with.
"""


def check_pair(
    drafter: str, verifier: str, parameters: Mapping[str, ParameterValue] = MappingProxyType({})
) -> None:
    """Raises BadRequest for a pair that makes no sense, or an option that the verifier does not read.

    Args:
        parameters: what the request sets; those that no verifier reads are left to others.
    """
    if drafter not in PAIRS:
        raise BadRequest("drafter", drafter, ", ".join(PAIRS))
    if verifier not in PAIRS[drafter]:
        raise BadRequest("verifier", verifier, f"with drafter {drafter}: {', '.join(PAIRS[drafter])}")
    for name, value in parameters.items():
        readers = [one for one, method in VERIFIERS.items() if name in method.options]
        if readers and verifier not in readers:
            allowed = f"nothing with verifier {verifier}: it belongs to {', '.join(readers)}; leave it out"
            raise BadRequest(name, value, allowed)
