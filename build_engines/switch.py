"""Lets a running server's model go on by another engine, without dropping a stream.

The server must have been started with --model-control. Its model is loaded anew as it is configured, but for
the engine; until the new engine has proved to be whole, fits the weights and has been warmed up, the old one
serves. Streams that are open end on the engine that they began with, whose process ends with the last of
them; new streams begin on the new one. An engine that does not fit is refused, and nothing changes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import monotonic

from talkahead.errors import TalkaheadError
from talkahead.launcher.model_control import ModelControl
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from build_engines.network_sources import SOURCES

_ASKED_S, _LOADED_S = 10.0, 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", choices=SOURCES, help="whose engine")
    add("engine", help="as its parameter `engine` has it; the server says which there are")
    add("--server", default="127.0.0.1:8001", metavar="HOST:PORT", help="its gRPC address (%(default)s)")
    add("--model-control", type=Path, required=True, metavar="FILE", help="the server's own")


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where the server keeps its engine."""
    began, headers = monotonic(), ModelControl.read(options.model_control).grpc_headers
    try:
        with InferenceServerClient(options.server) as server:
            answer = server.get_model_config(options.model, as_json=True, client_timeout=_ASKED_S)
            config = answer["config"]
            parameters = config.setdefault("parameters", {})
            before = parameters.get("engine", {}).get("string_value", "its default")
            parameters["engine"] = {"string_value": options.engine}
            server.load_model(options.model, headers, json.dumps(config), client_timeout=_LOADED_S)
    except InferenceServerException as error:
        raise TalkaheadError(f"{options.model} stays as it is: {_reason(error, options)}") from error
    print(f"switch: {options.model} from {before} to {options.engine}, in {monotonic() - began:.1f} s")


def _reason(error: InferenceServerException, options: argparse.Namespace) -> str:
    """Without the places in the code, and in our words where Triton's say nothing to a user."""
    reason = str(error.message()).partition("\n\nAt:")[0].strip()
    if "protocol is restricted" in reason:
        return f"the server was started with another key than that of {options.model_control}"
    if "explicit model load" in reason:
        return "the server was started without --model-control"
    return reason.rpartition("ArtifactMismatch: ")[2]
