"""What drafts of each size brought where it was counted: tokens a step, with the verifier `match`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from talkahead.drafting.draft_files import ACCEPTANCE, WEIGHTS, draft_folder
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import sha256


@dataclass(frozen=True)
class Acceptance:
    """Counted on what the talker says by itself, through the served step.

    Args:
        draft: hash of the draft's weights.
        steps: target steps that the smallest draft was counted on.
        temperature, top_p: of the draws.
        committed_per_step: tokens that a step added, by nodes of the draft, the root among them.
    """

    draft: str
    steps: int
    temperature: float
    top_p: float
    committed_per_step: Mapping[int, float]

    def of(self, nodes: int) -> float:
        """Of the largest counted draft of at most so many nodes; 1 for the root alone."""
        fitting = [size for size in self.committed_per_step if size <= nodes]
        return self.committed_per_step[max(fitting)] if fitting else 1.0

    def save(self, folder: Path) -> None:
        (folder / ACCEPTANCE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None where nothing was counted; raises ArtifactMismatch when it was counted for other weights."""
        path = folder / ACCEPTANCE
        if not path.exists():
            return None
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["draft"] != sha256(folder / WEIGHTS):
            raise ArtifactMismatch(
                f"{path} was counted for another draft; make it anew with: python -m build_engines calibrate"
            )
        counted = {int(nodes): tokens for nodes, tokens in raw.pop("committed_per_step").items()}
        return cls(**raw, committed_per_step=counted)


def read_acceptance(talker: Path, drafters: Iterable[str]) -> dict[str, Acceptance]:
    """By drafter, of those in a talker's folder for which it was counted."""
    found = {name: Acceptance.read(draft_folder(talker, name)) for name in drafters}
    return {name: one for name, one in found.items() if one is not None}
