"""How far an engine is from torch's float32, and how far it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from talkahead.errors import ArtifactMismatch

from instruments import report


@dataclass(frozen=True)
class Figure:
    """One measure.

    Args:
        name: in a manifest.
        about: what was measured, for people.
        limit: what it may be at most.
    """

    name: str
    about: str
    value: float
    limit: float

    @property
    def passes(self) -> bool:
        """Never for what is not a number."""
        return self.value <= self.limit


@dataclass(frozen=True)
class Parity:
    """The measures of one engine."""

    figures: Sequence[Figure]

    @property
    def passes(self) -> bool:
        return all(one.passes for one in self.figures)

    @property
    def metrics(self) -> dict[str, float]:
        """As a manifest holds them."""
        return {one.name: one.value for one in self.figures}

    def require(self, engine: str) -> None:
        """Raises ArtifactMismatch where an engine does not pass."""
        if not self.passes:
            raise ArtifactMismatch(f"{engine} does not do what torch does in float32")

    def table(self) -> str:
        return report.markdown(
            [
                {
                    "measure": one.about,
                    "found": f"{one.value:.1e}",
                    "allowed": f"{one.limit:.0e}",
                    "passes": "yes" if one.passes else "no",
                }
                for one in self.figures
            ]
        )


def apart(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> tuple[float, float]:
    """The largest and the mean difference, over the largest of the others."""
    differences = np.abs(one - other) / np.abs(other).max()
    return float(differences.max()), float(differences.mean())
