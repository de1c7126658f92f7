"""The verifiers that there are. A new one is a file with its class, and an entry here.

Names alone are read here: a class is imported, and torch with it, when one is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol, cast

from talkahead.speculation.verifier_options import VerifierOptions

if TYPE_CHECKING:
    from talkahead.speculation.contracts import Preserves, Verifier
    from talkahead.speculation.target_tokens import TargetTokens


class VerifierKind(Protocol):
    """A verifier's class."""

    @property
    def preserves(self) -> Preserves:
        """What each of them promises about the tokens."""

    def of(self, options: VerifierOptions, target: TargetTokens) -> Verifier:
        """From checked options."""


@dataclass(frozen=True)
class VerifierSpec:
    """All that is particular to one verifier.

    Args:
        name: what requests call it.
        source: `module:class` of its `VerifierKind`.
        drafter: the one that it was proposed with, which a request that names no drafter gets first.
        options: the request parameters that it reads.
        reads_probs: it compares q with the distribution that a draft was drawn from.
    """

    name: str
    source: str
    drafter: str
    options: tuple[str, ...] = ()
    reads_probs: bool = False

    @property
    def kind(self) -> VerifierKind:
        return cast("VerifierKind", resolve_name(self.source))


_ROOM = "talkahead.speculation"
VERIFIERS: dict[str, VerifierSpec] = {
    spec.name: spec
    for spec in (
        VerifierSpec("match", f"{_ROOM}.match_verifier:MatchVerifier", "heads"),
        VerifierSpec("ratio", f"{_ROOM}.ratio_verifier:RatioVerifier", "draft_lm", reads_probs=True),
        VerifierSpec(
            "groups", f"{_ROOM}.groups_verifier:GroupsVerifier", "draft_lm", ("similarity",), reads_probs=True
        ),
        VerifierSpec("tolerance", f"{_ROOM}.tolerance_verifier:ToleranceVerifier", "heads", ("tolerance",)),
        VerifierSpec("topk", f"{_ROOM}.topk_verifier:TopkVerifier", "mtp", ("top_k_verify", "eos_top_k")),
        VerifierSpec(
            "biased", f"{_ROOM}.biased_verifier:BiasedVerifier", "draft_lm", ("bias",), reads_probs=True
        ),
    )
}
"""By name. The order is that of their numbers in STATS."""
