"""Where what is not finished lies: whole files of one recipe."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from talkahead.errors import TalkaheadError

_RECIPE = "recipe.json"


def hold_to(folder: Path, recipe: Mapping[str, object]) -> None:
    """What has begun by one recipe does not go on by another; raises TalkaheadError."""
    path = folder / _RECIPE
    if path.exists() and (begun := json.loads(path.read_text(encoding="utf-8"))) != recipe:
        changed = [name for name in recipe if recipe[name] != begun.get(name)]
        was = ", ".join(f"{name} {_short(begun.get(name))}, now {_short(recipe[name])}" for name in changed)
        raise TalkaheadError(
            f"{folder} was begun otherwise: {was}; go on as it was begun, remove it, or choose another --work"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with whole(path) as partial:
        (partial / path.name).write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")


def recipes_beside(folder: Path) -> Iterator[Mapping[str, object]]:
    """Of all drafts that have begun and not ended, in work folders beside this one."""
    for path in folder.parent.glob(f"*/{_RECIPE}"):
        yield json.loads(path.read_text(encoding="utf-8"))


def _short(value: object) -> str:
    return str(value)[:12]


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A folder to write a file in, which comes to its place when it is whole."""
    folder = path.parent / "partial"
    folder.mkdir(exist_ok=True)
    yield folder
    (folder / path.name).rename(path)
    folder.rmdir()
