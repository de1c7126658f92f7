"""What the README tells a newcomer to type works as it stands there.

Run are its ```python blocks that name 127.0.0.1:8001, and its ```bash blocks that begin with talkahead-say;
they meet the server under test instead of one at that address. A block runs in an empty folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from served import ROOT, Served

ADDRESS = "127.0.0.1:8001"
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
            return ADDRESS in self.code
        return self.code.startswith("talkahead-say")

    def command(self, address: str) -> list[str]:
        shell = [sys.executable] if self.language == "python" else ["bash", "-euo", "pipefail"]
        return [*shell, "-c", self.code.replace(ADDRESS, address)]


def runnable_blocks() -> list[Block]:
    readme = ROOT / "README.md"
    text = readme.read_text() if readme.exists() else ""
    return [block for match in _FENCE.finditer(text) if (block := Block(match[1], match[2])).is_runnable]


def test_readme_has_blocks_of_either_kind() -> None:
    assert {block.language for block in runnable_blocks()} == {"python", "bash"}


@pytest.mark.parametrize("block", runnable_blocks(), ids=lambda block: block.code.splitlines()[0])
def test_block_runs(block: Block, server: Served, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    path = f"{_commands(tmp_path / 'bin', server.grpc)}:{os.environ['PATH']}"
    done = subprocess.run(
        block.command(server.grpc),
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
