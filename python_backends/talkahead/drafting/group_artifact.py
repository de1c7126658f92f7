"""A talker's similarity groups for a list of thresholds, in a folder: made once, not at each start."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from talkahead.drafting import draft_files
from talkahead.drafting.draft_artifact import read_config
from talkahead.speculation.similarity_groups import SimilarityGroups

CONFIG = draft_files.GROUPS
WEIGHTS = "groups.safetensors"


def group_tokens(
    embeddings: Tensor, thresholds: Iterable[float], alone: Collection[int]
) -> dict[float, SimilarityGroups]:
    """Groups by threshold; see `SimilarityGroups.of`."""
    return {threshold: SimilarityGroups.of(embeddings, threshold, alone) for threshold in thresholds}


def save_groups(folder: Path, groups: Mapping[float, SimilarityGroups], target: str) -> None:
    """Writes them with their mean and largest size, and the hash of the talker that they belong to."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [
        {
            "similarity": threshold,
            "groups": one.num_groups,
            "mean_size": round(one.mean_size, 3),
            "largest_size": one.largest_size,
        }
        for threshold, one in groups.items()
    ]
    (folder / CONFIG).write_text(
        json.dumps({"target": target, "groups": sizes}, indent=2) + "\n", encoding="utf-8"
    )
    tensors: dict[str, Tensor] = {}
    for threshold, one in groups.items():
        tokens = len(one.num_owners)
        # No size and no token is larger than the vocabulary.
        whole = torch.int16 if tokens <= torch.iinfo(torch.int16).max else torch.int32
        tensors[f"{threshold!r}.members"] = one.members.to(whole)
        tensors[f"{threshold!r}.sizes"] = one.sizes.to(whole)
        tensors[f"{threshold!r}.tokens"] = torch.tensor([tokens], dtype=whole)
    save_file(tensors, folder / WEIGHTS)


def load_groups(
    folder: Path, talker: Path, device: torch.device | str = "cpu"
) -> dict[float, SimilarityGroups]:
    """Raises ArtifactMismatch when there are none, or they are another talker's."""
    config = read_config(folder, talker, CONFIG)
    tensors = load_file(folder / WEIGHTS)
    found: dict[float, SimilarityGroups] = {}
    for one in config["groups"]:
        threshold = float(one["similarity"])
        members, sizes, tokens = (
            tensors[f"{threshold!r}.{part}"].to(torch.int64) for part in ("members", "sizes", "tokens")
        )
        found[threshold] = SimilarityGroups.from_sizes(members, sizes, int(tokens)).to(torch.device(device))
    return found
