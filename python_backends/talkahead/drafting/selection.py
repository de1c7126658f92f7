"""Which drafter and verifier a request gets, or why what it asks for cannot be done: names, no tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from talkahead.config import ParameterValue, RequestOptions
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.drafters import DRAFTERS, DrafterSpec, drafter_names, verifiers_of
from talkahead.drafting.offer import Offer
from talkahead.errors import BadRequest
from talkahead.speculation.pairs import PLAIN, Pair
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.verifiers import VERIFIERS, VerifierSpec


@dataclass(frozen=True)
class Selection:
    """What one request gets.

    Args:
        nodes: of a tree at most, root included; 1 without a draft.
        is_pinned: the tree keeps that size, whatever the load.
    """

    pair: Pair
    verifier: VerifierOptions
    nodes: int
    is_pinned: bool


def check_pair(
    drafter: str, verifier: str, parameters: Mapping[str, ParameterValue] = MappingProxyType({})
) -> None:
    """Raises BadRequest for a pair that makes no sense, or an option that neither of the two reads.

    Args:
        parameters: what the request sets; those that belong to no drafter and no verifier are left to others.
    """
    if drafter not in drafter_names():
        raise BadRequest("drafter", drafter, ", ".join(drafter_names()))
    if verifier not in verifiers_of(drafter):
        raise BadRequest("verifier", verifier, f"with drafter {drafter}: {', '.join(verifiers_of(drafter))}")
    _check_options(f"drafter {drafter}", DRAFTERS, drafter, parameters)
    _check_options(f"verifier {verifier}", VERIFIERS, verifier, parameters)


def _check_options(
    chosen: str,
    readers: Mapping[str, DrafterSpec] | Mapping[str, VerifierSpec],
    reader: str,
    parameters: Mapping[str, ParameterValue],
) -> None:
    for name, value in parameters.items():
        owners = [one for one, spec in readers.items() if name in spec.options]
        if owners and reader not in owners:
            raise BadRequest(
                name, value, f"nothing with {chosen}: it belongs to {', '.join(owners)}; leave it out"
            )


def select(options: RequestOptions, offer: Offer) -> Selection:
    """The request's pair and options: of the pairs that fit what it names, the first that takes its options.

    So what is accepted does not depend on the server's default, which differs between machines. Raises
    BadRequest that names what this server allows.
    """
    refusals = []
    for pair in _candidates(options.drafter, options.verifier, offer):
        try:
            return _selection(pair, options, offer)
        except BadRequest as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _selection(pair: Pair, options: RequestOptions, offer: Offer) -> Selection:
    """Raises BadRequest where the pair does not take the options."""
    check_pair(pair.drafter, pair.verifier, options.speculation)
    chosen = VerifierOptions.from_parameters(options.speculation)
    if pair.verifier == "groups":
        chosen = _with_similarity(chosen, offer)
    if pair.drafter == PLAIN.drafter:
        return Selection(pair, chosen, nodes=1, is_pinned=True)
    nodes = _nodes(pair.drafter, options, offer.drafters[pair.drafter])
    return Selection(pair, chosen, nodes, options.pin_draft is True)


def _candidates(drafter: str | None, verifier: str | None, offer: Offer) -> list[Pair]:
    """The pairs that fit what a request names, at least one, the preferred first.

    That is the server's own; then `match` before other verifiers, and with each verifier the server's own
    drafter before those that it was proposed with.
    """
    if drafter is not None and drafter not in offer.names:
        raise BadRequest(
            "drafter", drafter, f"{', '.join(offer.names)} (this server has no weights of others)"
        )
    if drafter is not None and verifier is not None:
        return [Pair(drafter, verifier)]
    known = [
        Pair(one, name)
        for name, spec in VERIFIERS.items()
        for one in (offer.default.drafter, spec.drafter, *DRAFTERS, PLAIN.drafter)
        if one in offer.names and name in verifiers_of(one)
    ]
    fitting = [one for one in known if drafter in (None, one.drafter) and verifier in (None, one.verifier)]
    if not fitting:
        usable = ", ".join(dict.fromkeys(one.verifier for one in known))
        raise BadRequest("verifier", verifier, f"{usable} (this server has no drafter for others)")
    return sorted(fitting, key=lambda one: one != offer.default)  # which leaves the others' order


def _with_similarity(chosen: VerifierOptions, offer: Offer) -> VerifierOptions:
    known = ", ".join(f"{one:g}" for one in offer.similarities) or "nothing: this voice has no groups"
    similarity = chosen.similarity
    if similarity is None and offer.similarities:
        similarity = offer.similarities[0]
    if similarity not in offer.similarities:
        raise BadRequest("similarity", chosen.similarity, known)
    return VerifierOptions(similarity=similarity)


def _nodes(drafter: str, options: RequestOptions, sizes: DraftSizes) -> int:
    """Nodes at most: the largest tree within what the request says."""
    spec = DRAFTERS[drafter]
    given: int | None = getattr(options, spec.size_option)
    if given is None:
        return sizes.default
    low, high = spec.size_of(sizes.nodes[0]), spec.size_of(sizes.nodes[-1])
    if not low <= given <= high:
        raise BadRequest(
            spec.size_option, given, f"a whole number from {low} to {high} with drafter {drafter}"
        )
    return max(size for size in sizes.nodes if spec.size_of(size) <= given)
