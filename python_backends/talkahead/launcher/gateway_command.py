"""`talkahead gateway`: the command of a package that need not be there."""

from __future__ import annotations

from collections.abc import Sequence

from talkahead.errors import LaunchError

NAME = "gateway"
ABOUT = "answer as OpenAI's and ElevenLabs' speech interfaces do, for servers that run already"


def run(arguments: Sequence[str]) -> int:
    """Runs it and returns its exit status; raises LaunchError where it is not installed."""
    try:
        from talkahead_gateway.command import main
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"the gateway needs the module {error.name}, which is not installed; in the checkout: "
            "pip install --constraint constraints.txt --editable '.[gateway]'"
        ) from error
    return main(arguments, prog=f"talkahead {NAME}")
