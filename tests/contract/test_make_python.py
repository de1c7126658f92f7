"""`make` takes the first Python that can make a virtual environment, and says what each lacks if none can."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "touch", "mkdir", "rm")
WHOLE = 'case "$*" in "-m venv"*) echo "venv by ${0##*/}"; exit 3;; esac'
"""Stops `make` where it would go on to install packages."""
WITHOUT_VENV = 'case "$*" in *venv*) exit 1;; esac'
A_SHIM = "echo 'not of this version' >&2; exit 127"
"""As pyenv leaves them on the PATH."""


def made(folder: Path, pythons: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """What `make` says of a virtual environment on a machine with these interpreters alone."""
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    for name, script in pythons.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    command = [str(shutil.which("make")), f"VENV={folder}/venv", f"{folder}/venv/.runs", *options]
    # Not what `make test` hands down.
    return subprocess.run(command, cwd=ROOT, env={"PATH": str(folder)}, capture_output=True, encoding="utf-8")


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3.11": WHOLE, "python3.12": WHOLE, "python3.13": WHOLE}, "python3.11"),
        ({"python3.12": WHOLE, "python3.13": WHOLE}, "python3.12"),
        ({"python3.13": WHOLE, "python3": A_SHIM}, "python3.13"),
        ({"python3.11": WITHOUT_VENV, "python3.12": A_SHIM, "python3.13": WHOLE}, "python3.13"),
    ],
)
def test_the_first_that_has_venv_is_taken(tmp_path: Path, pythons: dict[str, str], taken: str) -> None:
    done = made(tmp_path / "bin", pythons)
    assert done.stdout.splitlines()[-1] == f"venv by {taken}", done.stderr


def test_the_one_that_is_asked_for_is_taken(tmp_path: Path) -> None:
    done = made(tmp_path / "bin", {"python3.11": WHOLE, "python3.13": WHOLE}, "PYTHON=python3.13")
    assert done.stdout.splitlines()[-1] == "venv by python3.13"


def test_what_each_one_lacks_is_told(tmp_path: Path) -> None:
    done = made(tmp_path / "bin", {"python3.11": A_SHIM, "python3.13": WITHOUT_VENV})
    told = [line for line in done.stderr.splitlines() if not line.startswith(("make", "not of"))]
    assert told[:3] == [
        "python3.11 does not run",
        "python3.12 is missing",
        "python3.13 lacks venv or ensurepip: apt-get install python3.13-venv",
    ]
    assert told[3].startswith(
        "one of python3.11 python3.12 python3.13 is needed: apt-get install python3-venv"
    )


def test_only_the_one_that_was_asked_for_is_told_of(tmp_path: Path) -> None:
    done = made(tmp_path / "bin", {"python3.11": WHOLE}, "PYTHON=python3.12")
    assert done.stderr.startswith("python3.12 is missing\n") and "python3.13 is missing" not in done.stderr
    assert done.stdout == ""
