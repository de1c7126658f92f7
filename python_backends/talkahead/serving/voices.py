"""The voices of this server, read without loading the network that speaks them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead.config import ModelConfig
from talkahead.errors import ArtifactMismatch, BadRequest


@dataclass(frozen=True)
class Voices:
    """Names in the order of the encoder's ids; the first is the default."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        """The voices of the encoder in the repository of `config`'s model."""
        path = config.artifact_folder("encoder") / "encoder.json"
        return cls.from_file(path)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        try:
            return cls(tuple(json.loads(path.read_text())["voices"]))
        except (OSError, KeyError, ValueError) as error:
            raise ArtifactMismatch(
                f"{path} does not list the voices ({error}); rebuild it with make train"
            ) from error

    @property
    def of_a_reference(self) -> int:
        """The encoder's id for none of them: the voice of the reference that comes with the text."""
        return len(self.names)

    def id_of(self, name: str | None) -> int:
        """Raises BadRequest for a voice that is not there."""
        if name is None:
            return 0
        if name not in self.names:
            raise BadRequest("VOICE", name, ", ".join(self.names))
        return self.names.index(name)
