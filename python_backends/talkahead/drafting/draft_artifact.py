"""A trained draft in a folder: `model.safetensors`, and `config.json` that names the talker it belongs to.

A draft of another talker would be served without an error and accepted never, so it is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from talkahead.drafting import draft_files
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.drafters import DRAFTERS
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import sha256
from talkahead.speculation.contracts import Drafter
from talkahead.weights import Unfilled, load_float32

WEIGHTS = draft_files.WEIGHTS
CONFIG = draft_files.CONFIG
_BELONGING = ("kind", "target")
"""Fields of a config that tell what a draft is, beside those of its network."""


@dataclass(frozen=True)
class Draft:
    """A network of one drafter, and the hash of the talker that it was trained on."""

    drafter: str
    network: nn.Module
    target: str

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        shape = DRAFTERS[self.drafter].kind.config(self.network)
        config = {"kind": self.drafter, "target": self.target, **shape}
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        state = {name: value.contiguous() for name, value in self.network.state_dict().items()}
        save_file(state, folder / WEIGHTS, metadata={"format": "pt"})

    @classmethod
    def load(cls, folder: Path, talker: Path) -> Draft:
        """Reads what `save` wrote as float32, ready for inference.

        Args:
            talker: the folder of the talker that it shall draft for.

        Raises:
            ArtifactMismatch: there is no draft, its kind is unknown, or it was trained on another talker.
        """
        config = read_config(folder, talker)
        if config["kind"] not in DRAFTERS:
            raise ArtifactMismatch(
                f"{folder / CONFIG}: kind {config['kind']!r} is not known; known: {', '.join(DRAFTERS)}"
            )
        own = {name: value for name, value in config.items() if name not in _BELONGING}
        with Unfilled():
            network = DRAFTERS[config["kind"]].kind.network(own, folder / CONFIG, talker)
        try:
            network.load_state_dict(load_float32(folder / WEIGHTS))
        except RuntimeError as error:
            raise ArtifactMismatch(f"{folder} is no draft for a talker of the shape in {talker}") from error
        network.eval().requires_grad_(False)
        return cls(config["kind"], network, config["target"])


def load_drafter(folder: Path, talker: Path, pool: DraftPool, options: DraftOptions | None = None) -> Drafter:
    """The drafter of a draft's folder, for the talker in `talker`; by default it drafts what each step wants.

    Raises:
        ArtifactMismatch: the draft belongs to another talker, or lacks its trees.
    """
    draft = Draft.load(folder, talker)
    kind = DRAFTERS[draft.drafter].kind
    return kind.drafter(draft.network, folder, talker, pool, options or DraftOptions())


def count_draft_bytes(folder: Path, talker: Path, pool: DraftPool) -> int:
    """What `load_drafter` will take of a device's memory; no weights are read.

    Raises ArtifactMismatch as it does.
    """
    config = read_config(folder, talker)
    kind = DRAFTERS[config["kind"]].kind
    own = {name: value for name, value in config.items() if name not in _BELONGING}
    with torch.device("meta"):
        return kind.num_bytes(kind.network(own, folder / CONFIG, talker), pool)


def target_hash(talker: Path) -> str:
    """What tells talkers apart: the hash of the weights in a talker's folder."""
    return sha256(talker / WEIGHTS)


def read_config(folder: Path, talker: Path, name: str = CONFIG) -> dict[str, Any]:
    """The description of something that belongs to a talker; raises ArtifactMismatch if it is another's."""
    config = _described(folder, name)
    found, wanted = config["target"], target_hash(talker)
    if found != wanted:
        raise ArtifactMismatch(
            f"{folder / name} belongs to the talker {found[:12]}, and the one in {talker} is {wanted[:12]}; "
            f"make it anew with: {_remedy(folder, name)}"
        )
    return config


def belongs(folder: Path, talker: Path) -> bool:
    """Whether a draft was trained for this very talker."""
    target: str = _described(folder, CONFIG)["target"]
    return target == target_hash(talker)


def _described(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.exists():
        raise ArtifactMismatch(f"{path} is missing; make it with: {_remedy(folder, name)}")
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def _remedy(folder: Path, name: str) -> str:
    if name != CONFIG:
        return "python -m build_engines calibrate"
    if folder.name in DRAFTERS:
        return f"talkahead drafts train --replace --drafter {folder.name}"
    return f"python -m training --recipe {folder.name}"
