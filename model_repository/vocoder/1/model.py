"""`vocoder`, windows to PCM: hands Triton's Python backend to the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils
from talkahead.config import ModelConfig
from talkahead.serving.model_process import settle
from talkahead.serving.vocoder_server import VocoderServer


class TritonPythonModel:
    """The name and the methods that Triton looks for."""

    def initialize(self, args: Mapping[str, str]) -> None:
        self._server = VocoderServer(pb_utils, ModelConfig.from_triton(args))
        settle(args["model_name"])

    def execute(self, requests: Sequence[Any]) -> None:
        self._server.execute(requests)

    def finalize(self) -> None:
        self._server.close()
