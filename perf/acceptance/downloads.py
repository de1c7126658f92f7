"""Which of some downloaded folders is the talker, the codec, the base of weights that come alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from talkahead.backbone.checkpoint import WEIGHTS
from talkahead.errors import ArtifactMismatch
from talkahead.families.importing import families_of, importable_families
from talkahead.families.text_tokens import TOKENIZER, TextTokens

ALONE = "llm."
"""Begins names of tensors in the file of a talker that comes without config.json and tokenizer."""


@dataclass(frozen=True)
class Downloads:
    """Folders as their publishers made them.

    Args:
        base: of a talker whose weights come alone; None: it has its own config.json and tokenizer.
    """

    family: str
    talker: Path
    codec: Path
    base: Path | None = None

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Downloads:
        """In any order. Raises ArtifactMismatch where one is missing, or more than one would do."""
        for folder in folders:
            if not folder.is_dir():
                raise ArtifactMismatch(f"{folder} is no folder; allowed: a talker's and its codec's")
        talkers = [folder for folder in folders if (folder / TOKENIZER).exists()]
        alone = [folder for folder in folders if folder not in talkers and _comes_alone(folder)]
        codecs = [folder for folder in folders if folder not in (*talkers, *alone)]
        if len(talkers) != 1 or len(codecs) != 1 or len(alone) > 1:
            raise ArtifactMismatch(
                f"of {', '.join(map(str, folders))}, {len(talkers)} hold a {TOKENIZER} and {len(codecs)} "
                "could be a codec's; allowed: one of each (and Llasa+'s file beside its base)"
            )
        families = families_of(TextTokens(talkers[0]))
        if len(families) != 1:
            known = ", ".join(importable_families())
            raise ArtifactMismatch(f"{talkers[0] / TOKENIZER} has speech of no family; known: {known}")
        if alone:
            return cls(families[0], alone[0], codecs[0], talkers[0])
        return cls(families[0], talkers[0], codecs[0])


def _comes_alone(folder: Path) -> bool:
    path = folder / WEIGHTS
    if not path.exists():
        return False
    with safe_open(path, "pt") as file:
        return any(name.startswith(ALONE) for name in file.keys())  # noqa: SIM118
