"""Networks as ONNX files."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from talkahead.families.library import library
from talkahead.families.network_file import NetworkFile

from build_engines.network_source import Trace

OPSET = 20


def write_onnx(trace: Trace, file: NetworkFile, path: Path) -> None:
    """Traces a network on an example of its inputs, has it simplified and the file checked.

    Args:
        file: the names of its tensors.
    """
    onnx, _ = library("onnx", "engines"), library("onnxscript", "engines")
    logging.getLogger("torch.onnx._internal.exporter").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter, on its own parts
        torch.onnx.export(
            trace.network.eval(),
            trace.example,
            path,
            input_names=list(file.inputs),
            output_names=list(file.outputs),
            dynamic_shapes=dict(trace.dynamic),
            opset_version=OPSET,
            dynamo=True,
            optimize=True,
            external_data=False,
            verbose=False,
        )
    onnx.checker.check_model(path, full_check=True)


def input_shapes(path: Path) -> dict[str, list[Any]]:
    """Of a file's inputs, by name: sizes, and names of those that may be of any size."""
    given = library("onnx", "engines").load(path).graph.input
    return {
        one.name: [size.dim_param or size.dim_value for size in one.type.tensor_type.shape.dim]
        for one in given
    }
