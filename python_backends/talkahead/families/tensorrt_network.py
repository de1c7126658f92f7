"""Networks run by TensorRT on a GPU, from a plan that `python -m build_engines build` made on one like it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from talkahead.errors import ArtifactMismatch
from talkahead.families.library import library
from talkahead.families.network_file import NetworkFile, require_source
from talkahead.manifest import NAME, Manifest

TENSORRT = "tensorrt"
PLAN = "model.plan"
_PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Gpu:
    """What a plan is made for.

    Args:
        name: of the card, for people.
        architecture: its compute capability, as `9.0`.
    """

    name: str
    architecture: str

    @classmethod
    def here(cls) -> Self | None:
        if not torch.cuda.is_available():
            return None
        major, minor = torch.cuda.get_device_capability()
        return cls(torch.cuda.get_device_name(), f"{major}.{minor}")


def plan_folder(version: Path) -> Path:
    """Of a model's version folder."""
    return version / TENSORRT


def build_command(version: Path, precision: str) -> str:
    """What makes the plan of a model's version folder."""
    model = version.parent
    where = f"--repository {model.parent}"
    return f"python -m build_engines build {model.name} --engine tensorrt --precision {precision} {where}"


class TensorrtNetwork:
    """Tensors of a GPU in and out, in the order of its file.

    Args:
        plan: what TensorRT serialised.
        precision: of its products.
    """

    def __init__(self, plan: Path, file: NetworkFile, precision: torch.dtype) -> None:
        self._trt = library(TENSORRT, TENSORRT)
        self.precision = precision
        self._runtime = self._trt.Runtime(self._trt.Logger(self._trt.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(plan.read_bytes())
        if self._engine is None:
            raise ArtifactMismatch(f"{plan} is no plan that this TensorRT takes")
        names = [self._engine.get_tensor_name(place) for place in range(self._engine.num_io_tensors)]
        given = [name for name in names if self._mode(name) == self._trt.TensorIOMode.INPUT]
        file.require_tensors(plan, given, [name for name in names if name not in given])
        self._context = self._engine.create_execution_context()
        self._file, self._profile = file, 0

    @classmethod
    def load(cls, version: Path, file: NetworkFile) -> Self:
        """Of a model's version folder.

        Raises:
            ArtifactMismatch: there is no plan, it is not whole, was made of another source, for another GPU
                or by another TensorRT.
        """
        folder = plan_folder(version)
        if not (folder / NAME).exists():
            build = build_command(version, "fp16")
            raise ArtifactMismatch(f"{folder / NAME} is missing; build the engine with: {build}")
        manifest = Manifest.read(folder)
        manifest.verify(folder)
        require_source(manifest, version, file.weights, manifest.command)
        require_machine(manifest, folder)
        return cls(folder / PLAN, file, _PRECISIONS[manifest.engine["precision"]])

    def __call__(self, *given: Tensor) -> list[Tensor]:
        stream, context = torch.cuda.current_stream(), self._context
        shapes = dict(zip(self._file.inputs, (tuple(one.shape) for one in given), strict=True))
        self._choose_profile(shapes, stream.cuda_stream)
        kept = [one.contiguous() for one in given]
        for name, tensor in zip(self._file.inputs, kept, strict=True):
            context.set_input_shape(name, shapes[name])
            context.set_tensor_address(name, tensor.data_ptr())
        made = [self._room(name, kept[0].device) for name in self._file.outputs]
        for name, tensor in zip(self._file.outputs, made, strict=True):
            context.set_tensor_address(name, tensor.data_ptr())
        if not context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError(f"TensorRT did not run on {shapes}")
        stream.synchronize()
        return made

    def _choose_profile(self, shapes: dict[str, tuple[int, ...]], stream: int) -> None:
        """The first one that has room; raises ValueError where none has."""
        fitting = (
            place
            for place in range(self._engine.num_optimization_profiles)
            if all(self._fits(name, shape, place) for name, shape in shapes.items())
        )
        if (profile := next(fitting, None)) is None:
            raise ValueError(f"no profile of the plan has room for {shapes}")
        if profile != self._profile:
            self._context.set_optimization_profile_async(profile, stream)
            self._profile = profile

    def _fits(self, name: str, shape: tuple[int, ...], profile: int) -> bool:
        least, _, most = self._engine.get_tensor_profile_shape(name, profile)
        return all(low <= size <= high for low, size, high in zip(least, shape, most, strict=True))

    def _room(self, name: str, device: torch.device) -> Tensor:
        kind: Any = self._trt.nptype(self._engine.get_tensor_dtype(name))
        dtype = torch.from_numpy(np.empty(0, kind)).dtype
        return torch.empty(tuple(self._context.get_tensor_shape(name)), dtype=dtype, device=device)

    def _mode(self, name: str) -> object:
        return self._engine.get_tensor_mode(name)


def require_machine(manifest: Manifest, folder: Path) -> None:
    """Raises ArtifactMismatch where a plan was made for another GPU than this one, or by another TensorRT."""
    made, gpu = manifest.engine, Gpu.here()
    fits = gpu is not None and gpu.architecture == made["gpu"]["architecture"]
    if gpu is None or not (fits or made["hardware_compatibility"]):
        here = f"{gpu.name} of {gpu.architecture}" if gpu else "no GPU"
        raise ArtifactMismatch(
            f"{folder} was made for a GPU of architecture {made['gpu']['architecture']} "
            f"({made['gpu']['name']}), and here is {here}; rebuild it here with: {manifest.command}"
        )
    version = library(TENSORRT, TENSORRT).__version__
    if version != made["versions"][TENSORRT]:
        raise ArtifactMismatch(
            f"{folder} was made by TensorRT {made['versions'][TENSORRT]}, and here is {version}; rebuild it "
            f"here with: {manifest.command}"
        )
