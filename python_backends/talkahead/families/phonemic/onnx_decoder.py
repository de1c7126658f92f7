"""The spectral decoder's network run by ONNX Runtime; `python -m build_engines export` writes the file."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from talkahead.errors import ArtifactMismatch
from talkahead.families.phonemic.spectral_decoder import NetworkOutput, Pitch, Spectra, SpectralConfig
from talkahead.manifest import NAME, Manifest, sha256

ONNXRUNTIME = "onnxruntime"
INPUTS = ("codes", "valid", "before")
OUTPUTS = (*Spectra._fields, *Pitch._fields, "seen")
FILE = "codec.onnx"
WEIGHTS = "codec.safetensors"
"""Of the vocoder's version folder, of which the engine is made."""


def engine_folder(version: Path) -> Path:
    """Of a vocoder's version folder."""
    return version / ONNXRUNTIME


class OnnxDecoder:
    """A `SpectralNetwork` in float32 on a CPU.

    Args:
        path: the network.
        threads: that one pass computes on.

    Raises:
        ArtifactMismatch: this is no such network, or ONNX Runtime is missing.
    """

    dtype = torch.float32

    def __init__(self, path: Path, config: SpectralConfig, threads: int) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ArtifactMismatch("engine onnxruntime: install the extra `engines`") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # A thread that waits for its next product would take the core from the other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.config = config
        try:
            self._session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's own have no common class
            raise ArtifactMismatch(f"{path} is no network that ONNX Runtime takes: {error}") from error

    @classmethod
    def load(cls, version: Path) -> Self:
        """Of a vocoder's version folder, as its manifest describes it; on as many threads as torch has."""
        folder = engine_folder(version)
        build = f"python -m build_engines export --repository {version.parent.parent}"
        if not (folder / NAME).exists():
            raise ArtifactMismatch(f"{folder / NAME} is missing; build the engine with: {build}")
        manifest = Manifest.read(folder)
        manifest.verify(folder)
        if manifest.target != sha256(version / WEIGHTS):
            raise ArtifactMismatch(
                f"{folder} was made of other weights than {version / WEIGHTS}; rebuild it with: {build}"
            )
        config = SpectralConfig.from_file(version / "codec.json")
        return cls(folder / FILE, config, torch.get_num_threads())

    def __call__(self, codes: Tensor, valid: Tensor, before: Tensor) -> NetworkOutput:
        given = (codes.numpy(), valid.numpy(), np.ascontiguousarray(before.numpy()))
        made = self._session.run(list(OUTPUTS), dict(zip(INPUTS, given, strict=True)))
        *spectra, height, voicing, seen = map(torch.from_numpy, made)
        return NetworkOutput(Spectra(*spectra), Pitch(height, voicing), seen)
