"""`talkahead gateway`: the command of a package that need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from talkahead.errors import LaunchError

NAME = "gateway"
ABOUT = "answer as OpenAI's, ElevenLabs' and Riva's speech interfaces do, for servers that run already"


def run(arguments: Sequence[str]) -> int:
    """Runs it and returns its exit status; raises LaunchError where it is not installed."""
    status: int = _module().main(arguments, prog=f"talkahead {NAME}")
    return status


def check(arguments: Sequence[str], prog: str) -> None:
    """Ends the command as wrong usage does where `run` would; raises LaunchError where it cannot run at all.

    Args:
        arguments: of the gateway's command.
        prog: whose usage it is.
    """
    try:
        _module().read_options(arguments, prog)
    except OSError as error:
        raise LaunchError(f"{prog}: {error}") from error


def _module() -> Any:  # noqa: ANN401
    try:
        from talkahead_gateway import command
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"the gateway needs the module {error.name}, which is not installed; in the checkout: "
            "pip install --constraint constraints.txt --editable '.[gateway]'"
        ) from error
    return command
