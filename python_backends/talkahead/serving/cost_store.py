"""Where measured step costs are kept: beside the compiled libraries, by all that they depend on."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch

import talkahead
from talkahead.backbone.backbone import Backbone
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import ModelConfig
from talkahead.cpu_path import cpu_path
from talkahead.engine.step_costs import StepCost, StepCosts
from talkahead.manifest import NAME as MANIFEST
from talkahead.manifest import Manifest
from talkahead.native_library import cache_folders, cpu_model

_ROOMS = ("speculation", "backbone", "drafting", "engine")
"""Whose code a step runs."""
_CODE = (".py", ".c", ".h")
BUSY_KEPT_S = 3_600.0
"""What a busy machine has measured, so that one start after another does not measure it anew."""


@dataclass(frozen=True)
class Conditions:
    """What costs were measured with: other conditions, other costs."""

    machine: str
    path: str
    device: str
    dtype: str
    decoder: str
    threads: int
    slots: int
    weights: str
    """Of the talker and its drafts."""
    code: str
    torch: str

    @classmethod
    def of(cls, config: ModelConfig, backbone: Backbone) -> Self:
        return cls(
            machine=machine_hash(),
            path=cpu_path(),
            device=device_name(backbone.device),
            dtype=config.parameters.get("precision", str(backbone.dtype)),
            decoder=_decoder_name(backbone),
            threads=torch.get_num_threads(),
            slots=backbone.num_slots,
            weights=weights_hash(config.folder),
            code=_code_hash(),
            torch=torch.__version__,
        )

    @property
    def file_name(self) -> str:
        return f"step-costs-{_hash(json.dumps(asdict(self), sort_keys=True).encode())}.json"


def _decoder_name(backbone: Backbone) -> str:
    """With what it has of a device's own ways."""
    name = type(backbone).__name__
    if not isinstance(backbone, SlotDecoder):
        return name
    ways = {"graphs": backbone.graphs is not None, "kernel": backbone.has_kernel}
    return " ".join([name, *(way for way, is_there in ways.items() if is_there)])


def machine_hash() -> str:
    """Of the CPU's model and features."""
    return _hash(cpu_model().encode())


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def weights_hash(talker: Path) -> str:
    """Of a talker and of what lies beside it to draft with, by their manifests."""
    manifests = sorted(path.parent for path in talker.rglob(MANIFEST))
    return _hash("".join(Manifest.read(folder).version for folder in manifests).encode())


def read_costs(conditions: Conditions) -> StepCosts | None:
    """None where nothing was measured so, what was kept cannot be read, or the machine was busy then and may
    be so no more.
    """
    for folder in cache_folders():
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = folder / conditions.file_name
            costs = _costs_in(json.loads(kept.read_text(encoding="utf-8")))
            return costs if costs.is_steady or time.time() - kept.stat().st_mtime < BUSY_KEPT_S else None
    return None


def latest_costs(talker: Path) -> tuple[StepCosts, Conditions] | None:
    """The last that were measured on this machine, on this path of its CPU, with the talker of a folder."""
    kept = [path for folder in cache_folders() for path in folder.glob("step-costs-*.json")]
    wanted = (machine_hash(), cpu_path(), weights_hash(talker))
    for path in sorted(kept, key=lambda one: one.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            raw = json.loads(path.read_text(encoding="utf-8"))
            found = Conditions(**raw["conditions"])
            if (found.machine, found.path, found.weights) == wanted:
                return _costs_in(raw), found
    return None


def write_costs(conditions: Conditions, costs: StepCosts) -> None:
    """Whole or not at all; where nothing can be kept, the next start measures again."""
    measured = {"costs": [asdict(one) for one in costs.measured], "reach": costs.reach}
    text = json.dumps({"conditions": asdict(conditions), **measured})
    for folder in cache_folders():
        with suppress(OSError):
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).replace(folder / conditions.file_name)
            return


def _costs_in(raw: dict[str, Any]) -> StepCosts:
    return StepCosts(tuple(StepCost(**one) for one in raw["costs"]), tuple(raw["reach"]))


def _code_hash() -> str:
    return _hash(b"".join(path.read_bytes() for path in _code()))


def _code() -> Iterator[Path]:
    package = Path(talkahead.__file__).parent
    for room in _ROOMS:
        yield from sorted(path for path in (package / room).rglob("*") if path.suffix in _CODE)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
