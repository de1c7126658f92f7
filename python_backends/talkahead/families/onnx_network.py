"""Networks run by ONNX Runtime on a CPU, in float32; `python -m build_engines export` writes their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.errors import ArtifactMismatch
from talkahead.manifest import NAME, Manifest, sha256

ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True)
class NetworkFile:
    """The ONNX file of one model's network.

    Args:
        name: of the file.
        weights: the file of the model's version folder that it is made of.
        inputs, outputs: names of its tensors, in order.
    """

    name: str
    weights: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def engine_folder(version: Path) -> Path:
    """Of a model's version folder."""
    return version / ONNXRUNTIME


def export_command(version: Path) -> str:
    """What makes the engine of a model's version folder."""
    model = version.parent
    return f"python -m build_engines export {model.name} --repository {model.parent}"


class OnnxNetwork:
    """Tensors in, tensors out, in the order of its file.

    Args:
        path: the network.
        threads: that one pass computes on.

    Raises:
        ArtifactMismatch: this is no such network, or ONNX Runtime is missing.
    """

    def __init__(self, path: Path, file: NetworkFile, threads: int) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ArtifactMismatch("engine onnxruntime: install the extra `engines`") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # A thread that waits for its next product would take the core from the other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's own have no common class
            raise ArtifactMismatch(f"{path} is no network that ONNX Runtime takes: {error}") from error
        tensors = tuple(
            tuple(one.name for one in side)
            for side in (self._session.get_inputs(), self._session.get_outputs())
        )
        if tensors != (file.inputs, file.outputs):
            raise ArtifactMismatch(
                f"{path} takes and gives the tensors {tensors}, not {(file.inputs, file.outputs)}"
            )
        self._file = file

    @classmethod
    def load(cls, version: Path, file: NetworkFile) -> Self:
        """Of a model's version folder, as the engine's manifest describes it; on as many threads as torch
        has."""
        folder, build = engine_folder(version), export_command(version)
        if not (folder / NAME).exists():
            raise ArtifactMismatch(f"{folder / NAME} is missing; build the engine with: {build}")
        manifest = Manifest.read(folder)
        manifest.verify(folder)
        if file.name not in manifest.files:
            raise ArtifactMismatch(f"{folder / NAME} describes no {file.name}; rebuild it with: {build}")
        if manifest.target != sha256(version / file.weights):
            raise ArtifactMismatch(
                f"{folder} was made of other weights than {version / file.weights}; rebuild it with: {build}"
            )
        return cls(folder / file.name, file, torch.get_num_threads())

    def __call__(self, *given: Tensor) -> list[Tensor]:
        arrays = [tensor.contiguous().numpy() for tensor in given]
        made = self._session.run(None, dict(zip(self._file.inputs, arrays, strict=True)))
        return [torch.from_numpy(array) for array in made]
