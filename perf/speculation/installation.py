"""What lies on this machine to be measured: talkers, their drafts, trees and groups."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from talkahead.drafting import calibrated_trees, group_artifact
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import CONFIG, WEIGHTS
from talkahead.drafting.rank_paths import RankTree
from talkahead.manifest import sha256

from perf.speculation.methods import Method, Talker


@dataclass(frozen=True)
class Similarity:
    """A threshold of the talker's calibrated groups, and how many tokens a group has on average."""

    threshold: float
    mean_size: float


@dataclass(frozen=True)
class Installation:
    """Model repositories of the talkers that there are.

    Every talker speaks through the shipped codec.
    """

    shipped: Path
    tuned: Path | None = None
    smaller: Path | None = None

    @property
    def repositories(self) -> dict[Talker, Path]:
        named = {Talker.SHIPPED: self.shipped, Talker.TUNED: self.tuned, Talker.SMALLER: self.smaller}
        return {talker: path for talker, path in named.items() if path is not None}

    def talker(self, which: Talker) -> Path:
        return self.repositories[which] / "talker" / "1"

    def encoder(self, which: Talker) -> Path:
        return self.repositories[which] / "encoder" / "1"

    @property
    def codec(self) -> Path:
        return self.shipped / "vocoder" / "1"

    def draft(self, method: Method) -> Path:
        return self.talker(method.talker) / "drafts" / method.draft

    def has(self, method: Method) -> bool:
        if method.talker not in self.repositories:
            return False
        return method.is_plain or (self.draft(method) / CONFIG).exists()

    @property
    def groups(self) -> Path:
        """Of the shipped talker."""
        return self.talker(Talker.SHIPPED) / "groups"

    def similarities(self) -> tuple[Similarity, ...]:
        """Of the groups there are, smallest first; nothing before they are calibrated."""
        path = self.groups / group_artifact.CONFIG
        if not path.exists():
            return ()
        groups = json.loads(path.read_text(encoding="utf-8"))["groups"]
        found = (Similarity(one["similarity"], one["mean_size"]) for one in groups)
        return tuple(sorted(found, key=lambda one: one.mean_size))

    def trees(self, method: Method) -> dict[int, RankTree]:
        """Those that were calibrated for these heads and for the method's draws, by their nodes."""
        folder = self.draft(method)
        weights = folder / WEIGHTS
        known = CalibratedTrees.read(folder, _hash(weights, weights.stat().st_mtime_ns))
        return {one.nodes: one.tree for one in known.of_trials(method.trials)}

    def hashes(self, method: Method) -> dict[str, str]:
        """Of the files that a method's row depends on."""
        talker = self.talker(method.talker)
        paths = {
            "talker": talker / WEIGHTS,
            "encoder": self.encoder(method.talker) / "encoder.safetensors",
            "codec": self.codec / "codec.safetensors",
        }
        if not method.is_plain:
            paths["draft"] = self.draft(method) / WEIGHTS
            paths["trees"] = self.draft(method) / calibrated_trees.NAME
        return {name: _hash(path, path.stat().st_mtime_ns) for name, path in paths.items() if path.exists()}

    def is_current(self, talker: str, draft: str, hashes: Mapping[str, str]) -> bool:
        """Whether the files that a row was measured with are the ones that lie here."""
        method = Method(draft, talker=Talker(talker))
        return self.has(method) and self.hashes(method) == hashes


@cache
def _hash(path: Path, changed_ns: int) -> str:
    return sha256(path)
