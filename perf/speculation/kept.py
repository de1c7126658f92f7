"""What was measured before is not measured again: parts of rows on disk, under all that they depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass
class Kept:
    """Measurements by the hash of their key.

    Args:
        fresh: what earlier runs kept does not count.
    """

    folder: Path
    fresh: bool = False
    _own: set[str] = field(default_factory=set)

    def get(self, key: Mapping[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The values of this key, JSON as it is read back; made, and kept, where they are not there."""
        text = json.dumps(key, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()
        path = self.folder / f"{name}.json"
        if not path.exists() or (self.fresh and name not in self._own):
            entry = {"key": key, "date": datetime.now(UTC).isoformat(timespec="seconds"), "value": make()}
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(entry), encoding="utf-8")
            partial.rename(path)
        self._own.add(name)
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["value"]
        return value
