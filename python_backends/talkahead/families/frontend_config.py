"""`frontend.json`: what a family's frontend has to know beside its tokenizer, as the import found it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from talkahead.errors import ArtifactMismatch

NAME = "frontend.json"


@dataclass(frozen=True)
class FrontendConfig:
    """Fields that a family has no use for stay empty.

    Args:
        before, after: what stands around the words in a prompt, with the checkpoint's own tokens written out.
        phonemes: who makes them, of those that the family knows.
    """

    before: str = ""
    after: str = ""
    phonemes: str = ""

    def save(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises ArtifactMismatch for what cannot be read."""
        path = folder / NAME
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise ArtifactMismatch(
                f"{path} cannot be read ({error!r}); write it with: python -m build_engines import-checkpoint"
            ) from error
