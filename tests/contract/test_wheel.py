"""A package that is built holds all that its modules read: sources in C, tables, pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("python_backends/talkahead", "clients/talkahead_client", "gateway/talkahead_gateway")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel of this checkout, which is built from a copy: building leaves folders behind."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, copy)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-c", BUILD, out], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = out.glob("talkahead-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("package", [Path(name) for name in PACKAGES], ids=lambda package: package.name)
def test_a_wheel_holds_every_file_of_a_package(package: Path, held: set[str]) -> None:
    files = [
        path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert len(files) > 5
    missing = {str(path.relative_to(ROOT / package.parent)) for path in files} - held
    assert not missing, f"pyproject.toml, package-data, lacks {', '.join(sorted(missing))}"
