"""What a server can do, by what lies beside its talker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from talkahead.drafting.draft_files import CONFIG, GROUPS, draft_folder, group_folder, read_json
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.drafters import DRAFTERS, drafter_names
from talkahead.speculation.pairs import PLAIN, Pair


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
        return tuple(name for name in drafter_names() if name == PLAIN.drafter or name in self.drafters)


def read_offer(talker: Path) -> Offer:
    """What can be done with the talker in a folder; raises ArtifactMismatch for what cannot be read."""
    sizes = {
        name: spec.sizes(draft_folder(talker, name))
        for name, spec in DRAFTERS.items()
        if (draft_folder(talker, name) / CONFIG).exists()
    }
    groups = group_folder(talker) / GROUPS
    known = read_json(groups)["groups"] if groups.exists() else []
    return Offer(sizes, tuple(one["similarity"] for one in known))
