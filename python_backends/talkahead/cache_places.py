"""Where what is made on this machine is kept. `make clean` asks, by a Python that may lack every package."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_places() -> list[Path]:
    """Where the folder may lie: the first place that can be made, and that is this user's alone, is taken."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    fallback = Path(tempfile.gettempdir()) / f"talkahead-native-{os.getuid()}"
    # A relative one is none: the specification says so, and a user without a home has none.
    return [base / "talkahead", fallback] if base.is_absolute() else [fallback]
