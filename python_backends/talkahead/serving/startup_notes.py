"""What a model says while it starts."""

from __future__ import annotations

import sys


def note(line: str) -> None:
    """To the server's log, which the launcher shows."""
    print(line, file=sys.stderr, flush=True)
