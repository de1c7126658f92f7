"""Networks as ONNX files."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import onnx
import torch
from talkahead.families.network_file import NetworkFile

from build_engines.network_source import Trace

OPSET = 20


def write_onnx(trace: Trace, file: NetworkFile, path: Path) -> None:
    """Traces a network on an example of its inputs, has it simplified and the file checked.

    Args:
        file: the names of its tensors.
    """
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
