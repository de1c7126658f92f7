"""What some tests need that a machine may lack. Nothing that a user runs depends on any of it.

`@pytest.mark.needs("wordnet")` keeps a test from running where that is missing; the end of a run says in one
line for each requirement how many tests it kept back, and how to get it (`conftest.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which

PLUGINS = Path(__file__).parent.parent / "build" / "plugins" / "bin" / "python"
"""Of the environment in which voice agents' plugins are installed."""


@dataclass(frozen=True)
class Requirement:
    """Something optional."""

    what: str
    """As in "2 tests need ..."."""
    is_met: Callable[[], bool]
    remedy: str = ""
    """How to get it, where that is possible."""

    def __str__(self) -> str:
        return f"{self.what} ({self.remedy})" if self.remedy else self.what


def _multiplies(precision: str) -> bool:
    import torch
    from talkahead.backbone.native_decoder import can_multiply
    from talkahead.native_library import NativeUnavailable

    try:
        return can_multiply(getattr(torch, precision))
    except NativeUnavailable:
        return False


def _has_tiles() -> bool:
    from talkahead.backbone.native_decoder import has_tiles

    return _multiplies("int8") and has_tiles()


def _has_envoy() -> bool:
    from instruments.proxy import find_envoy

    return find_envoy() is not None


def _has_namespaces() -> bool:
    if os.geteuid() or which("ip") is None:
        return False
    name = f"talkahead-tried-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    return made and subprocess.run(["ip", "netns", "delete", name], capture_output=True).returncode == 0


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


REQUIREMENTS = {
    "amx": Requirement("a CPU with tiles (AMX)", _has_tiles),
    "bfloat16": Requirement("a CPU that multiplies bfloat16 (AVX-512 BF16)", lambda: _multiplies("bfloat16")),
    "chromium": Requirement("Chromium", lambda: which("chromium") is not None, "apt-get install chromium"),
    "curl": Requirement("curl", lambda: which("curl") is not None, "apt-get install curl"),
    "envoy": Requirement("Envoy, of the extra `deploy`", _has_envoy, "make setup"),
    "gpu": Requirement("a GPU that torch can use", _has_gpu),
    "haproxy": Requirement("haproxy", lambda: which("haproxy") is not None, "apt-get install haproxy"),
    "int8": Requirement("a CPU that multiplies bytes (AVX2)", lambda: _multiplies("int8")),
    "kubectl": Requirement(
        "kubectl", lambda: shutil.which("kubectl") is not None, "apt-get install kubernetes-client"
    ),
    "llama_cpp": Requirement(
        "llama.cpp, the extra `llama`",
        lambda: find_spec("llama_cpp") is not None and find_spec("gguf") is not None,
        ".venv/bin/python -m pip install --constraint constraints.txt --editable '.[llama]'",
    ),
    "matplotlib": Requirement("matplotlib", lambda: find_spec("matplotlib") is not None, "make setup"),
    "netns": Requirement("root, and network namespaces", _has_namespaces),
    "openssl": Requirement("openssl", lambda: which("openssl") is not None, "apt-get install openssl"),
    "plugins": Requirement("Pipecat's and LiveKit's plugins", PLUGINS.exists, "make plugins"),
    "prometheus": Requirement(
        "Debian's prometheus, with promtool",
        lambda: which("prometheus") is not None and which("promtool") is not None,
        "apt-get install prometheus",
    ),
    "triton": Requirement(
        "OpenAI's Triton, the extra `kernels`",
        lambda: find_spec("triton") is not None,
        ".venv/bin/python -m pip install --constraint constraints.txt --editable '.[kernels]'",
    ),
    "wordnet": Requirement(
        "Debian's wordnet-base", Path("/usr/share/wordnet/data.noun").exists, "apt-get install wordnet-base"
    ),
}
