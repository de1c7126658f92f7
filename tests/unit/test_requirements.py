"""What is kept back is said once for each thing that is missing, and a name that is none stops the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import requirements

OURS = Path(requirements.__file__).parent
MOON = """
from requirements import Requirement

REQUIREMENTS["moon"] = Requirement("the moon", lambda: False, "apt-get install moon")
REQUIREMENTS["earth"] = Requirement("the earth", lambda: True)
"""
TESTS = """
import pytest

@pytest.mark.needs("earth")
def test_earth(): pass

@pytest.mark.parametrize("place", [1, pytest.param(2, marks=pytest.mark.needs("moon"))])
def test_place(place): assert place == 1

@pytest.mark.needs("earth", "moon")
def test_tide(): assert False

@pytest.mark.skip(reason="it is late")
def test_late(): assert False
"""


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((OURS / "conftest.py").read_text() + MOON)
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(OURS)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_one_line_says_what_is_missing(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS)
    said = [line for line in done.stdout.splitlines() if line.startswith("not run:")]
    assert said == ["not run: 1 test: it is late", "not run: 2 tests need the moon (apt-get install moon)"]
    assert "2 passed, 3 skipped" in done.stdout and done.returncode == 0


def test_a_name_that_is_none_stops_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "import pytest\n\n@pytest.mark.needs('mars')\ndef test_it(): pass\n")
    assert done.returncode == 4
    assert "test_it.py::test_it needs mars; known: amx, " in done.stderr
