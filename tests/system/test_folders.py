"""A clone in a folder whose name Triton cannot take."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from hearing import speak
from served import REPOSITORY, ROOT, Served
from talkahead.cache_places import cache_places
from talkahead_client import Client
from texts import SENTENCES

pytestmark = pytest.mark.patient


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what is served; weights and packages by links."""
    folder = tmp_path / "my clône"
    shutil.copytree(REPOSITORY, folder / "model_repository", copy_function=os.symlink)
    package = folder / "python_backends"
    shutil.copytree(ROOT / "python_backends", package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.slow
def test_a_clone_in_any_folder_speaks(clone: Path) -> None:
    """With its temporary folder and its cache in there, in which one library is compiled anew."""
    environment = {"PYTHONPATH": clone / "python_backends"}
    environment |= {name: clone / name.lower() for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    for folder in environment.values():
        folder.mkdir(exist_ok=True)
    cache = clone / "xdg_cache_home" / "talkahead"
    if (kept := cache_places()[0]).is_dir():
        # All of them, and measuring, would take a minute on a busy machine.
        shutil.copytree(kept, cache, ignore=shutil.ignore_patterns("chain-*", "tmp*"))
    server = Served(
        *("--restarts", 0),
        python=clone / ".venv" / "bin" / "python",
        environment={name: str(folder) for name, folder in environment.items()},
    )
    with server, Client(server.wait_until_ready().grpc) as client:
        assert speak(client, SENTENCES[0], seed=1, max_seconds=1.0).audio.any()
        assert list(cache.glob("chain-*.so"))
        client.close()
        server.ask_to_stop()
        assert server.exit_status() == 0
