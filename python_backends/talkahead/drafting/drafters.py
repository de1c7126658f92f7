"""The drafters that there are. A new one is a file with its `DraftKind`, and an entry here.

Names alone are read here: a kind is imported, and torch with it, when its weights are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, cast

from talkahead.drafting.draft_sizes import DraftSizes, cascade_sizes, open_sizes, tree_sizes
from talkahead.speculation.pairs import PLAIN
from talkahead.speculation.verifiers import VERIFIERS

if TYPE_CHECKING:
    from talkahead.drafting.draft_kind import DraftKind


@dataclass(frozen=True)
class DrafterSpec:
    """All that is particular to one drafter.

    Args:
        name: what requests call it, and its folder beside a talker.
        source: `module:class` of its `DraftKind`.
        sizes: what it can propose, read from its folder.
        is_tree: it proposes calibrated trees; else a chain.
        returns_probs: it draws what it proposes, and tells from which distribution.
    """

    name: str
    source: str
    sizes: Callable[[Path], DraftSizes]
    is_tree: bool = False
    returns_probs: bool = False

    @property
    def size_option(self) -> str:
        """The request parameter that says how much it drafts."""
        return "nodes" if self.is_tree else "draft_length"

    @property
    def options(self) -> tuple[str, ...]:
        """The request parameters that it reads."""
        return (self.size_option, "pin_draft")

    def size_of(self, nodes: int) -> int:
        """What `size_option` says of so many nodes, root included."""
        return nodes if self.is_tree else nodes - 1

    @property
    def kind(self) -> DraftKind:
        return cast("DraftKind", resolve_name(self.source)())


_ROOM = "talkahead.drafting"
DRAFTERS: dict[str, DrafterSpec] = {
    spec.name: spec
    for spec in (
        DrafterSpec("heads", f"{_ROOM}.heads_kind:HeadsKind", tree_sizes, is_tree=True),
        DrafterSpec("mtp", f"{_ROOM}.mtp_kind:MtpKind", cascade_sizes, returns_probs=True),
        DrafterSpec("draft_lm", f"{_ROOM}.draft_lm_kind:DraftLmKind", open_sizes, returns_probs=True),
    )
}
"""By name. The order is that of their numbers in STATS, where 0 drafts nothing."""


def drafter_names() -> tuple[str, ...]:
    """What a request may name, by their numbers in STATS."""
    return (PLAIN.drafter, *DRAFTERS)


def verifiers_of(drafter: str) -> tuple[str, ...]:
    """The verifiers that make sense with a drafter.

    Without a draft all are the same. One that tells no p takes none that compares q with it: `ratio` would
    accept its guesses as often as `match`, which promises more.
    """
    if drafter == PLAIN.drafter:
        return (PLAIN.verifier,)
    returns_probs = DRAFTERS[drafter].returns_probs
    return tuple(name for name, spec in VERIFIERS.items() if returns_probs or not spec.reads_probs)
