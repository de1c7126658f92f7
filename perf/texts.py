"""What the load says: replies of a voice agent, 13 to 85 characters."""

from __future__ import annotations

from pathlib import Path

TEXTS = tuple((Path(__file__).parent / "texts.txt").read_text(encoding="utf-8").splitlines())
