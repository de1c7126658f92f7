"""What verifiers know of the target's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from talkahead.speculation.similarity_groups import SimilarityGroups


@dataclass(frozen=True)
class TargetTokens:
    """What verifiers know of the target's vocabulary.

    Args:
        eos: the end of speech.
        groups: by their cosine threshold; the first is the default.
    """

    eos: int
    groups: Mapping[float, SimilarityGroups] = field(default_factory=dict)
