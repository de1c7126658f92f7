"""What the README tells a newcomer to type works as it stands there.

Run are its ```python blocks that name an address, and its ```bash blocks that begin with talkahead-say or
curl; they meet the server under test, or its gateway, instead. A block runs in an empty folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from front_door import FrontDoor
from served import ROOT, Served

ADDRESS = "127.0.0.1:8001"
GATEWAY = "127.0.0.1:8080"
LIMIT_S = 120.0
_FENCE = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Runnable code of the README."""

    language: str
    code: str

    @property
    def is_runnable(self) -> bool:
        if self.language == "python":
            return ADDRESS in self.code or GATEWAY in self.code
        return self.code.startswith(("talkahead-say", "curl"))

    def command(self, server: str, gateway: str) -> list[str]:
        shell = [sys.executable] if self.language == "python" else ["bash", "-euo", "pipefail"]
        return [*shell, "-c", self.code.replace(ADDRESS, server).replace(GATEWAY, gateway)]


def runnable_blocks() -> list[Block]:
    readme = ROOT / "README.md"
    text = readme.read_text() if readme.exists() else ""
    return [block for match in _FENCE.finditer(text) if (block := Block(match[1], match[2])).is_runnable]


def test_readme_has_blocks_of_either_kind() -> None:
    assert {block.language for block in runnable_blocks()} == {"python", "bash"}


@pytest.fixture(scope="module")
def gateway(server: Served) -> Iterator[FrontDoor]:
    with FrontDoor(server.grpc) as running:
        yield running


def marked(block: Block) -> ParameterSet:
    needs = [pytest.mark.needs("curl")] if block.code.startswith("curl") else []
    return pytest.param(block, marks=needs, id=block.code.splitlines()[0])


@pytest.mark.parametrize("block", [marked(block) for block in runnable_blocks()])
def test_block_runs(block: Block, server: Served, gateway: FrontDoor, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    path = f"{_commands(tmp_path / 'bin', server.grpc)}:{os.environ['PATH']}"
    done = subprocess.run(
        block.command(server.grpc, gateway.address),
        cwd=work,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{block.code}\n{done.stdout}\n{done.stderr}"


def _commands(folder: Path, address: str) -> Path:
    """talkahead-say that asks the server under test unless told otherwise, and a silent player."""
    folder.mkdir()
    say = f'exec {shlex.quote(sys.executable)} -m talkahead_client.say --server {address} "$@"'
    for name, line in (("talkahead-say", say), ("aplay", "exec cat > /dev/null")):
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return folder
