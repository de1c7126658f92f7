"""What runs a network: torch, or one of the libraries that take its ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from talkahead.config import AUTO
from talkahead.families.contracts import TORCH, require_engine
from talkahead.families.network_file import NetworkFile
from talkahead.families.onnx_network import ONNXRUNTIME, OnnxNetwork
from talkahead.families.openvino_network import OPENVINO, OpenvinoNetwork
from talkahead.families.tensorrt_network import TENSORRT, TensorrtNetwork


class Network(Protocol):
    """Tensors in, tensors out, in the order of its file."""

    @property
    def precision(self) -> torch.dtype:
        """Of its products."""

    def __call__(self, *given: Tensor) -> Sequence[Tensor]: ...


_RUNTIMES: Mapping[str, type[OnnxNetwork] | type[OpenvinoNetwork] | type[TensorrtNetwork]] = {
    ONNXRUNTIME: OnnxNetwork,
    OPENVINO: OpenvinoNetwork,
    TENSORRT: TensorrtNetwork,
}
"""By the name of their package."""


def choose_engine(
    engine: str,
    on_cpu: Sequence[str],
    device: torch.device,
    version: Path,
    file: NetworkFile,
    on_gpu: Sequence[str] = (TORCH,),
) -> str:
    """An engine by its name; for `AUTO` the first one on a CPU whose package is here, if it has its file.

    Args:
        on_cpu, on_gpu: engines of the network, the fastest first.
        version: the model's version folder.

    Raises:
        ArtifactMismatch: the network has none of this name on the device.
    """
    require_engine(engine, on_cpu, device.type, "this codec", on_gpu)
    if engine != AUTO:
        return engine
    if device.type != "cpu" or not file.is_in(version):
        return TORCH
    return next(one for one in on_cpu if find_spec(one))


def load_network(engine: str, version: Path, file: NetworkFile) -> Network:
    """Of a model's version folder. Raises ArtifactMismatch where it or its package does not fit."""
    return _RUNTIMES[engine].load(version, file)
