"""The manifest beside every artifact: where it came from, and the hashes that tell whether it is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from talkahead.errors import ArtifactMismatch

NAME = "manifest.json"


def sha256(path: Path) -> str:
    """Of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Manifest:
    """Provenance of one artifact.

    Attributes:
        command: what rebuilds it, from the repository's root.
        source_commit: the commit whose code made it.
        data: what it was trained on.
        metrics: measured at the end of training.
        files: sha256 of each file of the artifact, by name.
        licence: of the artifact and of what it learned from.
        target: of what belongs to a talker (drafts, groups): `target_hash` of it; of an engine: sha256 of the
            weights that it was made of.
        engine: of an engine: hash of the speech format, precision, shapes, versions of what made it, machine.
    """

    command: str
    source_commit: str
    data: str
    steps: int
    metrics: Mapping[str, Any]
    files: Mapping[str, str]
    licence: str
    target: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Tells artifacts with different files apart."""
        return hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises ArtifactMismatch when there is none."""
        path = folder / NAME
        if not path.exists():
            raise ArtifactMismatch(f"{path} is missing; make the weights with: make train")
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def verify(self, folder: Path) -> None:
        """Raises ArtifactMismatch when a file is missing or differs from the one that was written."""
        for name, expected in self.files.items():
            path = folder / name
            if not path.exists():
                raise ArtifactMismatch(f"{path} is missing; rebuild it with: {self.command}")
            if sha256(path) != expected:
                raise ArtifactMismatch(
                    f"{path} is not the file that {NAME} describes; rebuild it with: {self.command}"
                )


def readable_files(paths: Iterable[Path]) -> dict[str, str]:
    """Hashes by name, as manifests hold them, of files that everybody may read from now on."""
    found = {}
    for path in paths:
        path.chmod(0o644)  # safetensors writes 0600, which a container's own user could not read
        found[path.name] = sha256(path)
    return found
