"""Voices beside a checkpoint: `voices/NAME.json` holds what a recording says, `text`, and its `codes`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from talkahead.errors import ArtifactMismatch
from talkahead.families.table_encoder import NamedVoice


def read_voices(
    folder: Path, ids: Callable[[str], list[int]], *, codebook: int, room: int
) -> tuple[NamedVoice, ...]:
    """In the order of their names.

    Args:
        ids: of what a recording says.
        codebook: codes that there are.
        room: positions for a voice's words and codes together.

    Raises:
        ArtifactMismatch: one cannot be read, or is too long.
    """
    return tuple(_voice(path, ids, codebook, room) for path in sorted(folder.glob("voices/*.json")))


def _voice(path: Path, ids: Callable[[str], list[int]], codebook: int, room: int) -> NamedVoice:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        words, codes = ids(raw["text"]), [int(code) for code in raw["codes"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactMismatch(
            f'{path} is no voice ({error!r}); allowed: {{"text": what is said, "codes": [numbers]}}'
        ) from error
    if not codes or not 0 <= min(codes) <= max(codes) < codebook:
        raise ArtifactMismatch(f"{path}: codes; allowed: at least one, each from 0 to {codebook - 1}")
    if len(words) + len(codes) > room:
        raise ArtifactMismatch(
            f"{path}: {len(words)} tokens of text and {len(codes)} codes; allowed: {room} together"
        )
    return NamedVoice(path.stem, frames=tuple((code,) for code in codes), said=raw["text"])
