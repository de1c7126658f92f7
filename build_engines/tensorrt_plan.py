"""From an exported network to a TensorRT plan with its manifest."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from talkahead.errors import TalkaheadError
from talkahead.families.library import library
from talkahead.families.network_file import format_of
from talkahead.families.tensorrt_network import PLAN, TENSORRT, Gpu, build_command, plan_folder
from talkahead.manifest import Manifest, readable_files, sha256

from build_engines.network_source import InputShapes, NetworkSource
from build_engines.repository_twin import put_in_place, twin_of
from instruments.provenance import source_commit

PRECISIONS = ("fp16", "bf16", "fp32")
BUCKETS = (16, 48, 96, 512)
"""Frames of a window, at most, of each profile: first chunks, half seconds, seconds, and the longest."""
_ROWS = (1, 4, 16)
"""Windows of a pass: least, usual, and the vocoder's max_batch_size."""
_MAJOR = "10"
_CACHE = "timing.cache"


@dataclass(frozen=True)
class PlanBuilder:
    """Of one network.

    Args:
        precision: of products, one of `PRECISIONS`.
        is_portable: the plan runs on every GPU from Ampere on.
    """

    source: NetworkSource
    precision: str
    is_portable: bool

    @property
    def command(self) -> str:
        portable = " --any-ampere-or-later" if self.is_portable else ""
        return build_command(self.source.version, self.precision) + portable

    def build(self) -> None:
        """Raises TalkaheadError where something is missing, or the plan does something else than torch."""
        source = self.source
        shapes, onnx = source.trace().shapes, source.file.verified(source.version)
        if shapes is None:
            raise TalkaheadError("TensorRT plans are made of our codec, XCodec2 and NeuCodec alone")
        gpu = self._require_machine()
        with tempfile.TemporaryDirectory(dir=source.version) as outer:
            twin = source.at(twin_of(source.version, plan_folder(source.version), Path(outer)))
            made = plan_folder(twin.version)
            made.mkdir()
            print(f"build: {onnx} for {gpu.name}, which takes minutes", flush=True)
            self._write(onnx, shapes, made)
            manifest = self._manifest(made, gpu)
            manifest.write(made)
            parity = twin.parity(TENSORRT)
            print(parity.table())
            parity.require(f"{PLAN} of {onnx.name}")
            replace(manifest, metrics={TENSORRT: parity.metrics}).write(made)
            put_in_place(made, plan_folder(source.version))
        print(f"build: {plan_folder(source.version)}")

    def _require_machine(self) -> Gpu:
        """Raises TalkaheadError with all that is missing, and what to run where it is not."""
        gpu, missing = (
            Gpu.here(),
            [f"the package {name}" for name in (TENSORRT, "polygraphy") if not find_spec(name)],
        )
        if gpu is None:
            missing.append("an NVIDIA GPU that torch sees")
        if missing or gpu is None:
            raise TalkaheadError(
                f"a TensorRT plan is made on a GPU like those that will run it, and here is missing: "
                f"{', '.join(missing)}. Where these are (NVIDIA's containers of TensorRT {_MAJOR}, with the "
                f"extra `engines`), run with this repository: {self.command}"
            )
        version = str(library(TENSORRT, TENSORRT).__version__)
        if version.partition(".")[0] != _MAJOR:
            raise TalkaheadError(
                f"tensorrt is {version} here; allowed: {_MAJOR}, which sets precisions by flags"
            )
        return gpu

    def _write(self, onnx: Path, shapes: InputShapes, folder: Path) -> None:
        trt, polygraphy = library(TENSORRT, TENSORRT), library("polygraphy.backend.trt", "engines")
        cache, level = self.source.version / _CACHE, trt.HardwareCompatibilityLevel.AMPERE_PLUS
        config = polygraphy.CreateConfig(
            profiles=[_polygraphy_profile(polygraphy, one) for one in profiles(shapes)],
            load_timing_cache=str(cache) if cache.exists() else None,
            hardware_compatibility_level=level if self.is_portable else None,
            tf32=self.precision != "fp32",
            fp16=self.precision == "fp16",
            bf16=self.precision == "bf16",
        )
        engine = polygraphy.EngineFromNetwork(
            polygraphy.NetworkFromOnnxPath(str(onnx)), config=config, save_timing_cache=str(cache)
        )
        polygraphy.SaveEngine(engine, str(folder / PLAN))()

    def _manifest(self, folder: Path, gpu: Gpu) -> Manifest:
        version, trained = self.source.version, Manifest.read(self.source.version)
        weights = version / self.source.file.weights
        trace = self.source.trace()
        assert trace.shapes is not None
        return Manifest(
            command=self.command,
            source_commit=source_commit(),
            data=str(weights),
            steps=trained.steps,
            metrics={},
            files=readable_files([folder / PLAN]),
            licence=trained.licence,
            target=sha256(weights),
            engine={
                "format": sha256(format_of(version)),
                "precision": self.precision,
                "shapes": [vars(one) for one in profiles(trace.shapes)],
                "versions": {TENSORRT: library(TENSORRT, TENSORRT).__version__},
                "gpu": vars(gpu),
                "hardware_compatibility": "ampere_plus" if self.is_portable else "",
            },
        )


@dataclass(frozen=True)
class ShapeProfile:
    """By input: the least, the usual and the largest shape."""

    least: Mapping[str, tuple[int, ...]]
    usual: Mapping[str, tuple[int, ...]]
    largest: Mapping[str, tuple[int, ...]]


def profiles(shapes: InputShapes) -> Sequence[ShapeProfile]:
    """One for each bucket; what is wider than one bucket falls into the next."""
    least, usual, most = _ROWS
    return [
        ShapeProfile(shapes(least, before + 1), shapes(usual, bucket), shapes(most, bucket))
        for before, bucket in pairwise((0, *BUCKETS))
    ]


def _polygraphy_profile(polygraphy: Any, one: ShapeProfile) -> Any:  # noqa: ANN401
    profile = polygraphy.Profile()
    for name in one.least:
        profile.add(name, min=one.least[name], opt=one.usual[name], max=one.largest[name])
    return profile
