"""Networks run by OpenVINO on a CPU: in bfloat16 where the CPU multiplies that, else in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.cpu_path import has_bfloat16_products
from talkahead.errors import ArtifactMismatch
from talkahead.families.library import library
from talkahead.families.network_file import NetworkFile

OPENVINO = "openvino"
_HINTS = {torch.float32: "f32", torch.bfloat16: "bf16"}


class OpenvinoNetwork:
    """Tensors in, tensors out, in the order of its ONNX file.

    Args:
        path: the network.
        threads: that one pass computes on.

    Raises:
        ArtifactMismatch: this is no such network.
        TalkaheadError: OpenVINO is not installed.
    """

    def __init__(self, path: Path, file: NetworkFile, threads: int) -> None:
        openvino = library("openvino", "engines")
        self.precision = torch.bfloat16 if has_bfloat16_products() else torch.float32
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": _HINTS[self.precision],
            "ENABLE_CPU_PINNING": False,  # the other models have threads on these cores, too
        }
        try:
            network = openvino.Core().compile_model(path, "CPU", options)
        except RuntimeError as error:
            raise ArtifactMismatch(f"{path} is no network that OpenVINO takes: {error}") from error
        file.require_tensors(
            path,
            [one.get_any_name() for one in network.inputs],
            [one.get_any_name() for one in network.outputs],
        )
        self._request = network.create_infer_request()

    @classmethod
    def load(cls, version: Path, file: NetworkFile) -> Self:
        """Of a model's version folder; on as many threads as torch has."""
        return cls(file.verified(version), file, torch.get_num_threads())

    def __call__(self, *given: Tensor) -> list[Tensor]:
        made = self._request.infer([tensor.contiguous().numpy() for tensor in given])
        return [torch.from_numpy(array.copy()) for array in made.values()]
