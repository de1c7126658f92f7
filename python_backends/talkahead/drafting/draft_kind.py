"""What a drafter with weights has to say of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.speculation.contracts import Drafter


class DraftKind(Protocol):
    """Between a folder's files, a network, and what drafts with it."""

    def network(self, config: Mapping[str, Any], path: Path, talker: Path) -> nn.Module:
        """One without weights of its own, as `path` describes it, for the talker in `talker`; raises
        ArtifactMismatch for what is not served."""

    def config(self, network: Any) -> dict[str, Any]:  # noqa: ANN401 - of this kind
        """The description of a network."""

    def num_bytes(self, network: Any, pool: DraftPool) -> int:  # noqa: ANN401 - of this kind
        """What the drafter of a network takes of its device's memory; the network may be without values."""

    def drafter(
        self,
        network: Any,  # noqa: ANN401 - of this kind
        folder: Path,
        talker: Path,
        pool: DraftPool,
        options: DraftOptions,
    ) -> Drafter:
        """What drafts with a network, which `folder` holds, for the talker in `talker`; raises
        ArtifactMismatch for what lies beside its weights and does not belong to them."""
