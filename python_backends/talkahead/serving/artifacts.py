"""Artifacts are served only as their manifest describes them."""

from __future__ import annotations

from pathlib import Path

from talkahead.manifest import Manifest


def verified(folder: Path) -> Path:
    """The version folder; raises ArtifactMismatch, ending with the command that rebuilds, if files differ."""
    Manifest.read(folder).verify(folder)
    return folder
