"""Networks run by ONNX Runtime on a CPU, in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.errors import ArtifactMismatch
from talkahead.families.library import library
from talkahead.families.network_file import NetworkFile

ONNXRUNTIME = "onnxruntime"


class OnnxNetwork:
    """Tensors in, tensors out, in the order of its file.

    Args:
        path: the network.
        threads: that one pass computes on.

    Raises:
        ArtifactMismatch: this is no such network.
        TalkaheadError: ONNX Runtime is not installed.
    """

    precision = torch.float32

    def __init__(self, path: Path, file: NetworkFile, threads: int) -> None:
        onnxruntime = library("onnxruntime", "engines")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # A thread that waits for its next product would take the core from the other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own have no common class
            raise ArtifactMismatch(f"{path} is no network that ONNX Runtime takes: {error}") from error
        file.require_tensors(
            path,
            [one.name for one in self._session.get_inputs()],
            [one.name for one in self._session.get_outputs()],
        )
        self._file = file

    @classmethod
    def load(cls, version: Path, file: NetworkFile) -> Self:
        """Of a model's version folder; on as many threads as torch has."""
        return cls(file.verified(version), file, torch.get_num_threads())

    def __call__(self, *given: Tensor) -> list[Tensor]:
        arrays = [tensor.contiguous().numpy() for tensor in given]
        made = self._session.run(None, dict(zip(self._file.inputs, arrays, strict=True)))
        return [torch.from_numpy(array) for array in made]
