"""Networks as ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path

import onnx
import torch
from talkahead.families.onnx_network import NetworkFile
from torch import Tensor, nn
from torch.export import Dim

OPSET = 20

DynamicShapes = Mapping[str, Mapping[int, Dim] | None]
"""By input: the dimensions that may be of any size."""


def write_onnx(
    network: nn.Module, example: tuple[Tensor, ...], dynamic: DynamicShapes, file: NetworkFile, path: Path
) -> None:
    """Traces a network on an example of its inputs, and has the file checked.

    Args:
        file: the names of its tensors.
    """
    logging.getLogger("torch.onnx._internal.exporter").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter, on its own parts
        torch.onnx.export(
            network.eval(),
            example,
            path,
            input_names=list(file.inputs),
            output_names=list(file.outputs),
            dynamic_shapes=dict(dynamic),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    onnx.checker.check_model(path, full_check=True)
