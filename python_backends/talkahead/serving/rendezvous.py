"""What the launcher tells the models of its server, in the folder where they meet."""

from __future__ import annotations

from pathlib import Path


def draining_flag(folder: Path) -> Path:
    """While this file is there, new streams are refused. `folder` is where the models meet."""
    return folder / "draining"
