"""Voices that were added to a repository: `encoder/1/voices/NAME.json`, a recording's words and its codes.

No manifest has them: they come and go while the artifacts stay.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from talkahead.config import folder_beside
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import Manifest

FOLDER = "voices"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class AddedVoice:
    """A recording, as a reference would be.

    Args:
        said: its transcript.
        frames: [F, C].
        codec: hash of the weights that made these of it.
    """

    name: str
    said: str
    frames: tuple[tuple[int, ...], ...]
    codec: str

    def save(self, encoder: Path) -> None:
        """Beside an encoder's artifacts, in one move."""
        path = path_of(encoder, self.name)
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        partial.rename(path)


def path_of(encoder: Path, name: str) -> Path:
    return encoder / FOLDER / f"{name}.json"


def added_voices(encoder: Path) -> tuple[AddedVoice, ...]:
    """Of an encoder's version folder, in the order of their names.

    Raises:
        ArtifactMismatch: one cannot be read, or its codes are another codec's.
    """
    paths = sorted((encoder / FOLDER).glob("*.json"))
    return tuple(_read(path, codec_of(encoder)) for path in paths)


def codec_of(encoder: Path) -> str:
    """Hash of the weights of the codec beside an encoder."""
    return Manifest.read(folder_beside(encoder, "vocoder")).files.get(_WEIGHTS, "")


def _read(path: Path, codec: str) -> AddedVoice:
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        voice = AddedVoice(path.stem, raw["said"], tuple(map(tuple, raw["frames"])), raw["codec"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactMismatch(
            f"{path} is no voice ({error!r}); remove it, and add it with: talkahead voices add"
        ) from error
    if voice.codec != codec:
        raise ArtifactMismatch(
            f"{path} holds codes of another codec than the vocoder's; make them anew with: talkahead voices "
            f"remove {path.stem}, and talkahead voices add {path.stem}"
        )
    return voice
