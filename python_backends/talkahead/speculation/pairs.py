"""Which drafters and verifiers there are, which go together, and what a request gets: names, no tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from talkahead.config import ParameterValue, RequestOptions
from talkahead.errors import BadRequest
from talkahead.speculation.verifier_options import VerifierOptions

VERIFIER_OPTIONS: dict[str, tuple[str, ...]] = {
    "match": (),
    "ratio": (),
    "groups": ("similarity",),
    "tolerance": ("tolerance",),
    "topk": ("top_k_verify", "eos_top_k"),
    "biased": ("bias",),
}
"""The verifiers, and the request parameters that each reads."""

DRAFTER_OPTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "heads": ("nodes", "pin_draft"),
    "mtp": ("draft_length", "pin_draft"),
    "draft_lm": ("draft_length", "pin_draft"),
}
"""The drafters, likewise."""

PAIRS: dict[str, tuple[str, ...]] = {
    "none": ("match",),
    "heads": ("match", "tolerance", "topk"),
    "mtp": tuple(VERIFIER_OPTIONS),
    "draft_lm": tuple(VERIFIER_OPTIONS),
}
"""The verifiers that make sense with each drafter.

Without a draft all are the same. `heads` proposes its best guesses and draws none: `ratio` would accept them
as often as `match`, which promises more, and `groups` and `biased` have no p to compare q with.
"""

_PARTNERS = {
    "match": ("heads", "mtp", "draft_lm", "none"),
    "ratio": ("draft_lm", "mtp"),
    "groups": ("draft_lm", "mtp"),
    "tolerance": ("heads", "mtp", "draft_lm"),
    "topk": ("mtp", "heads", "draft_lm"),
    "biased": ("draft_lm", "mtp"),
}
"""The drafters that go with each verifier, the one that it was proposed with first."""


@dataclass(frozen=True)
class Pair:
    """The names of a drafter and a verifier."""

    drafter: str
    verifier: str


PLAIN = Pair("none", "match")


@dataclass(frozen=True)
class DraftSizes:
    """What one drafter of a server can propose.

    Args:
        nodes: of its trees, root included, ascending; of a chain, its length and one.
        default: the most that it proposes where a request says nothing; one of `nodes`.
    """

    nodes: tuple[int, ...]
    default: int

    @property
    def usual(self) -> tuple[int, ...]:
        """Those that a request gets unasked."""
        return tuple(size for size in self.nodes if size <= self.default)


@dataclass(frozen=True)
class Offer:
    """What a server can do.

    Args:
        drafters: those that it has weights for.
        similarities: thresholds of the talker's groups.
        default: the pair of a request that asks for none.
    """

    drafters: Mapping[str, DraftSizes] = field(default_factory=dict)
    similarities: tuple[float, ...] = ()
    default: Pair = PLAIN

    @property
    def names(self) -> tuple[str, ...]:
        """The drafters that a request may name."""
        return ("none", *(name for name in PAIRS if name in self.drafters))


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
    if drafter not in PAIRS:
        raise BadRequest("drafter", drafter, ", ".join(PAIRS))
    if verifier not in PAIRS[drafter]:
        raise BadRequest("verifier", verifier, f"with drafter {drafter}: {', '.join(PAIRS[drafter])}")
    _check_options(f"drafter {drafter}", DRAFTER_OPTIONS, DRAFTER_OPTIONS[drafter], parameters)
    _check_options(f"verifier {verifier}", VERIFIER_OPTIONS, VERIFIER_OPTIONS[verifier], parameters)


def _check_options(
    chosen: str,
    readers: Mapping[str, tuple[str, ...]],
    read: tuple[str, ...],
    parameters: Mapping[str, ParameterValue],
) -> None:
    for name, value in parameters.items():
        owners = [one for one, options in readers.items() if name in options]
        if owners and name not in read:
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
    if pair.drafter == "none":
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
        for name, partners in _PARTNERS.items()
        for one in (offer.default.drafter, *partners)
        if one in offer.names and name in PAIRS[one]
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
    low, high = sizes.nodes[0], sizes.nodes[-1]
    if "nodes" in DRAFTER_OPTIONS[drafter]:
        name, given, wanted = "nodes", options.nodes, options.nodes
    else:
        name, given, low, high = "draft_length", options.draft_length, low - 1, high - 1
        wanted = None if given is None else given + 1
    if wanted is None:
        return sizes.default
    assert given is not None
    if not low <= given <= high:
        raise BadRequest(name, given, f"a whole number from {low} to {high} with drafter {drafter}")
    return max(size for size in sizes.nodes if size <= wanted)
