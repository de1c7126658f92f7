"""A trained draft in a folder: `model.safetensors`, and `config.json` that names the talker it belongs to.

A draft of another talker would be served without an error and accepted never, so it is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.drafting import draft_files
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import sha256
from talkahead.weights import load_float32

WEIGHTS = draft_files.WEIGHTS
CONFIG = draft_files.CONFIG
_BELONGING = ("kind", "target")
"""Fields of a config that tell what a draft is, beside those of its network."""


class DraftKind(StrEnum):
    """The drafters that have weights, by the names that requests use."""

    HEADS = "heads"
    MTP = "mtp"
    DRAFT_LM = "draft_lm"


@dataclass(frozen=True)
class Draft:
    """A network of one kind, and the hash of the talker that it was trained on."""

    kind: DraftKind
    network: DraftHeads | MtpModules | Llama
    target: str

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = {"kind": self.kind, "target": self.target, **_shape(self.network)}
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
        state = {name: value.contiguous() for name, value in self.network.state_dict().items()}
        save_file(state, folder / WEIGHTS, metadata={"format": "pt"})

    @classmethod
    def load(cls, folder: Path, talker: Path) -> Draft:
        """Reads what `save` wrote as float32, ready for inference.

        Args:
            talker: the folder of the talker that it shall draft for.

        Raises:
            ArtifactMismatch: there is no draft, or it was trained on another talker.
        """
        config = read_config(folder, talker)
        kind = DraftKind(config["kind"])
        network = _network(kind, config, folder / CONFIG)
        network.load_state_dict(load_float32(folder / WEIGHTS))
        network.eval().requires_grad_(False)
        return cls(kind, network, config["target"])


def target_hash(talker: Path) -> str:
    """What tells talkers apart: the hash of the weights in a talker's folder."""
    return sha256(talker / WEIGHTS)


def read_config(folder: Path, talker: Path, name: str = CONFIG) -> dict[str, Any]:
    """The description of something that belongs to a talker; raises ArtifactMismatch if it is another's."""
    path = folder / name
    if not path.exists():
        raise ArtifactMismatch(f"{path} is missing; make it with: {_remedy(folder, name)}")
    config: dict[str, Any] = json.loads(path.read_text())
    found, wanted = config["target"], target_hash(talker)
    if found != wanted:
        raise ArtifactMismatch(
            f"{path} belongs to the talker {found[:12]}, and the one in {talker} is {wanted[:12]}; "
            f"make it anew with: {_remedy(folder, name)}"
        )
    return config


def _remedy(folder: Path, name: str) -> str:
    if name != CONFIG:
        return "python -m build_engines calibrate"
    return f"python -m training --recipe {folder.name}"


def _shape(network: DraftHeads | MtpModules | Llama) -> dict[str, Any]:
    if isinstance(network, DraftHeads):
        return {
            "num_heads": len(network),
            "width": network.width,
            "block_size": network.block_size,
            "vocab_size": network.vocab_size,
            "sees_tokens": network.sees_tokens,
        }
    if isinstance(network, MtpModules):
        layer = network.config.to_hugging_face()
        return {"num_modules": len(network), "sees_tokens": network.sees_tokens, "layer": layer}
    return network.config.to_hugging_face()


def _network(kind: DraftKind, config: dict[str, Any], path: Path) -> DraftHeads | MtpModules | Llama:
    if kind is DraftKind.HEADS:
        shape = (config["num_heads"], config["width"], config["vocab_size"])
        return DraftHeads(*shape, block_size=config["block_size"], sees_tokens=config["sees_tokens"])
    if kind is DraftKind.MTP:
        # Files written before the layer named its type hold a Llama's.
        layer = DecoderConfig.from_fields({"model_type": "llama", **config["layer"]}, path)
        return MtpModules(layer, config["num_modules"], sees_tokens=config["sees_tokens"])
    own = {name: value for name, value in config.items() if name not in _BELONGING}
    return Llama(DecoderConfig.from_fields(own, path))
