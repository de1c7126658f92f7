"""Libraries that not everybody needs: extras of the package, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from talkahead.errors import TalkaheadError


def library(name: str, extra: str = "families") -> ModuleType:
    """Raises TalkaheadError where it is not installed.

    Args:
        extra: which brings it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise TalkaheadError(
            f"the package {name} is not here; install it with: pip install 'talkahead[{extra}]'"
        ) from error
