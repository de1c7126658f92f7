"""NVIDIA's container serves every repository that a checkout serves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_its_image_installs_what_imported_families_need() -> None:
    installed = re.search(r'pip install .*"\.\[([^]]+)\]"', (ROOT / "deploy" / "Dockerfile").read_text())
    assert installed is not None
    extras = set(installed[1].split(","))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"client", "families"} <= extras <= set(project["optional-dependencies"])
