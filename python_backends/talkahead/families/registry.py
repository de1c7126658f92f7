"""The families that can be served: each a folder here, loaded when a format names it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from talkahead import families
from talkahead.errors import ArtifactMismatch
from talkahead.families.contracts import Family


def family_names() -> tuple[str, ...]:
    return tuple(sorted(found.name for found in iter_modules(families.__path__) if found.ispkg))


def load_family(name: str) -> Family:
    """Raises ArtifactMismatch for a name that is none."""
    if name not in family_names():
        raise ArtifactMismatch(f"family: {name!r} is not known; known: {', '.join(family_names())}")
    family: Family = import_module(f"talkahead.families.{name}.family").FAMILY
    return family
