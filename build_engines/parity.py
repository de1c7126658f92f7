"""Compares an engine, as a server would load it, with torch in float32.

Of the vocoder: frames that the talker speaks (of an imported voice: frames drawn at random), in windows side
by side, against each utterance decoded at once, or against torch's windows where these join only nearly
(XCodec2, NeuCodec). Of the encoder: prompts of texts. Prints what was found and what is allowed; fails where
that is less.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from talkahead.config import AUTO
from talkahead.families.contracts import TORCH
from talkahead.families.native_engine import NATIVE
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.openvino_network import OPENVINO
from talkahead.families.tensorrt_network import TENSORRT

from build_engines.network_sources import SOURCES
from instruments.environment import REPOSITORY

ENGINES = (AUTO, NATIVE, TORCH, ONNXRUNTIME, OPENVINO, TENSORRT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", choices=SOURCES, help="whose engine")
    parser.add_argument("engine", choices=ENGINES, help="as this machine runs it")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")


def run(options: argparse.Namespace) -> None:
    """Raises ArtifactMismatch where it does not pass."""
    parity = SOURCES[options.model](options.repository).parity(options.engine)
    print(parity.table())
    parity.require(options.engine)
