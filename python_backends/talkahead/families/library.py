"""Libraries that only some families need: an extra of the package, imported when such a family is loaded."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from talkahead.errors import TalkaheadError


def library(name: str) -> ModuleType:
    """Raises TalkaheadError where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise TalkaheadError(
            f"the package {name} is not here, which this family needs; install it with: "
            "pip install 'talkahead[families]'"
        ) from error
