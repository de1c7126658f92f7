"""Triton's model control: closed, or open to those who know a key.

Whoever may load a model may load one that they bring along, and so run code as the server's user. The key
stands on the command line of tritonserver, which takes it nowhere else and where other users of the machine
can read it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from talkahead.errors import Code, TalkaheadError

_NAME = "talkahead-model-control"
_KEY = re.compile(r"[A-Za-z0-9_-]{16,}")
_ALLOWED = "a key: at least 16 letters, digits, _ or -"


@dataclass(frozen=True)
class ModelControl:
    """What opens it."""

    key: str = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises TalkaheadError where the file holds no key."""
        try:
            key = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise _refusal(f"{path} cannot be read ({error})") from error
        if not _KEY.fullmatch(key):
            raise _refusal(f"{path} does not hold {_ALLOWED}")
        return cls(key)

    @classmethod
    def read_or_made(cls, path: Path) -> Self:
        """With a new key, in a file for this user alone, where there is none."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls.read(path)
        except OSError as error:
            raise _refusal(f"{path} cannot be written ({error})") from error
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        return cls.read(path)

    @property
    def server_flags(self) -> Mapping[str, str]:
        """Of tritonserver: all models are loaded at its start, and with the key again."""
        restricted = f"model-repository:{_NAME}={self.key}"
        return {
            "model-control-mode": "explicit",
            "load-model": "*",
            "grpc-restricted-protocol": restricted,
            "http-restricted-api": restricted,
        }

    @property
    def http_headers(self) -> dict[str, str]:
        return {_NAME: self.key}

    @property
    def grpc_headers(self) -> dict[str, str]:
        return {f"triton-grpc-protocol-{_NAME}": self.key}


def _refusal(reason: str) -> TalkaheadError:
    return TalkaheadError(f"--model-control {reason}", Code.INVALID_ARGUMENT)
