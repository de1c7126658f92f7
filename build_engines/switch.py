"""Lets a running server's model go on by another engine, without dropping a stream.

The server must have been started with --model-control. Its model is loaded anew as it is configured, but for
the engine and the precision; until the new one has proved to be whole, fits the weights and has been warmed
up, the old one serves. Streams that are open end on the one that they began with, whose process ends with the
last of them; new streams begin on the new one. What does not fit is refused, and nothing changes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from talkahead.errors import TalkaheadError
from talkahead.launcher.model_control import ModelControl
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from build_engines.network_sources import MODELS

_ASKED_S, _LOADED_S = 10.0, 300.0
_TALKER = "talker"
_PARAMETERS = {**dict.fromkeys(MODELS, "engine"), _TALKER: "decoder"}
"""That say a model's engine."""
_PRECISION = "precision"
_UNASKED = {"measure_steps": "false"}
"""The talker's, for it joins a server that speaks: costs would be those of the load, after minutes."""
_RAISED = re.compile(r".*\b(?:ArtifactMismatch|BadRequest|TalkaheadError): ", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", choices=_PARAMETERS, help="whose engine")
    add(
        "engine",
        help="as its parameter `engine` has it, the talker's `decoder`; the server says which there are",
    )
    add("--precision", help="of the talker's products: float32, bfloat16, int8 or int4 (as it is)")
    add("--server", default="127.0.0.1:8001", metavar="HOST:PORT", help="its gRPC address (%(default)s)")
    add("--model-control", type=Path, required=True, metavar="FILE", help="the server's own")


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where the server keeps its engine."""
    began, headers, wanted = (
        monotonic(),
        ModelControl.read(options.model_control).grpc_headers,
        _wanted(options),
    )
    try:
        with InferenceServerClient(options.server) as server:
            answer = server.get_model_config(options.model, as_json=True, client_timeout=_ASKED_S)
            config = answer["config"]
            parameters = config.setdefault("parameters", {})
            before = _told(parameters, wanted)
            asked = {**wanted, **_UNASKED} if options.model == _TALKER else wanted
            parameters |= {name: {"string_value": value} for name, value in asked.items()}
            server.load_model(options.model, headers, json.dumps(config), client_timeout=_LOADED_S)
    except InferenceServerException as error:
        raise TalkaheadError(f"{options.model} stays as it is: {_reason(error, options)}") from error
    after = _told(parameters, wanted)
    print(f"switch: {options.model} from {before} to {after}, in {monotonic() - began:.1f} s")


def _wanted(options: argparse.Namespace) -> Mapping[str, str]:
    """Parameters of the model's configuration, by name."""
    wanted = {_PARAMETERS[options.model]: options.engine}
    if options.precision is None:
        return wanted
    if options.model != _TALKER:
        raise TalkaheadError(f"--precision: that of {options.model} is its engine's; allowed: with {_TALKER}")
    return {**wanted, _PRECISION: options.precision}


def _told(parameters: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return " ".join(parameters.get(name, {}).get("string_value", "its default") for name in names)


def _reason(error: InferenceServerException, options: argparse.Namespace) -> str:
    """Without the places in the code, and in our words where Triton's say nothing to a user."""
    reason = str(error.message()).partition("\n\nAt:")[0].strip()
    if "protocol is restricted" in reason:
        return f"the server was started with another key than that of {options.model_control}"
    if "explicit model load" in reason:
        return "the server was started without --model-control"
    return _RAISED.sub("", reason)
