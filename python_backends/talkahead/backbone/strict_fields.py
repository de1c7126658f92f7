"""Fields of a JSON file, of which none may stay unread: what nobody reads would be left out in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from talkahead.errors import ArtifactMismatch


class StrictFields:
    """What is read is taken out; `refuse_unread` refuses the rest by name.

    Args:
        raw: the fields.
        path: of their file, for sentences.
        prefix: of the names, where the fields lie within another one.

    Attributes:
        defaults: of fields that are missing, before those that a call names.
    """

    def __init__(self, raw: Mapping[str, object], path: Path, prefix: str = "") -> None:
        self.defaults: Mapping[str, object] = {}
        self._left = dict(raw)
        self._path = path
        self._prefix = prefix
        self._known: set[str] = set()

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Raises ArtifactMismatch for a file that is missing or holds no JSON object."""
        if not path.exists():
            raise ArtifactMismatch(f"{path} is missing; every checkpoint in its layout has one")
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ArtifactMismatch(f"{path} is not JSON: {error}") from error
        if not isinstance(raw, dict):
            raise ArtifactMismatch(f"{path} holds no JSON object, but a {type(raw).__name__}")
        return cls(raw, path)

    def has(self, name: str) -> bool:
        """Whether a field is there and unread."""
        return name in self._left

    def take(self, name: str, default: object = None) -> object:
        self._known.add(name)
        return self._left.pop(name, self.defaults.get(name, default))

    def whole(self, name: str, default: object = None) -> int:
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.refusal(name, value, "a whole number from 1")
        return value

    def real(self, name: str, default: object = None) -> float:
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self.refusal(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str) -> bool:
        """False where it is missing."""
        return self.one_of(name, (False, True), False) is True

    def one_of(self, name: str, allowed: tuple[object, ...], default: object) -> object:
        value = self.take(name, default)
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise self.refusal(name, value, " or ".join(map(json.dumps, allowed)))
        return value

    def group(self, name: str) -> StrictFields | None:
        """Fields within a field, or None where that is null or missing."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.refusal(name, value, "null or an object")
        return StrictFields(value, self._path, f"{self._prefix}{name}.")

    def refusal(self, name: str, value: object, allowed: str) -> ArtifactMismatch:
        named = f"{self._path}: {self._prefix}{name} is {json.dumps(value)}"
        return ArtifactMismatch(f"{named}, which is not served; allowed: {allowed}")

    def refuse_unread(self, kind: str) -> None:
        """Raises ArtifactMismatch for a field that was not taken and sets something, which null does not."""
        for name, value in self._left.items():
            if value is None:
                continue
            raise self.refusal(name, value, f"the fields of {kind}: {', '.join(sorted(self._known))}")
