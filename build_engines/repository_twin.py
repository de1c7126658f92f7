"""A repository of links beside the real one, in which an engine is tried, as a server loads it, before it has
its name."""

from __future__ import annotations

import shutil
from pathlib import Path


def twin_of(version: Path, engine: Path, outer: Path) -> Path:
    """All of a model's repository but one of its engines.

    Args:
        version: the model's version folder.
        engine: the folder in it that the twin is without.
        outer: where the twin lies, in the version folder.
    """
    version, model = version.resolve(), version.resolve().parent
    twin = outer / "repository"
    (twin / model.name / version.name).mkdir(parents=True)
    for other in model.parent.iterdir():
        if other != model:
            (twin / other.name).symlink_to(other)
    for part in version.iterdir():
        if part.name not in (engine.name, outer.name):
            (twin / model.name / version.name / part.name).symlink_to(part)
    return twin


def put_in_place(made: Path, engine: Path) -> None:
    """Gives a folder its name, in place of what had it."""
    shutil.rmtree(engine, ignore_errors=True)
    made.rename(engine)
