"""Where the models of one server meet: in a folder of their launcher, or in one named after their parent."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from talkahead.config import socket_dir
from talkahead.errors import Code, TalkaheadError
from talkahead.private_folder import private_folder

TALKER, FRONTEND = "talker-", "frontend-"
"""What the sockets of a kind of model are named by, before their address."""
SUFFIX = ".sock"


def new_address() -> int:
    """Of a socket: never 0, which means that nobody listens."""
    return secrets.randbits(62) | 1


def rendezvous_folder() -> Path:
    """Where the models of one server meet: in the launcher's folder, else in one named after their parent.

    That name can be guessed, so a folder that another user has put there is refused.
    """
    folder = socket_dir() or Path(tempfile.gettempdir()) / f"talkahead-{os.getppid()}"
    try:
        return private_folder(folder)
    except OSError as error:
        raise TalkaheadError(
            f"the models cannot meet: {error}; remove it, or set TMPDIR to a folder of your own",
            Code.UNAVAILABLE,
        ) from error


def socket_path(folder: Path, prefix: str, address: int) -> Path:
    return folder / f"{prefix}{address}{SUFFIX}"


def leaving_flag(folder: Path) -> Path:
    """While this file is there, health checks are refused and streams are not: proxies shall notice first."""
    return folder / "leaving"


def draining_flag(folder: Path) -> Path:
    """While this file is there, new streams are refused. `folder` is where the models meet."""
    return folder / "draining"
