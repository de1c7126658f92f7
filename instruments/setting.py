"""What tells one measurement of a sentence from another, so that its result can be kept on disk."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from instruments import measures


@dataclass(frozen=True)
class Setting:
    """What a measurement depends on beside a sentence and its audio.

    `texts` are the normalised words that the recogniser expects.
    """

    texts: tuple[str, ...]
    codec: Path
    cache: Path

    @cached_property
    def digest(self) -> str:
        """Changes with the texts, the codec, and the code that measures."""
        sources = sorted(Path(measures.__file__).parent.glob("*.py"))
        parts = [json.dumps(self.texts).encode(), (self.codec / "codec.safetensors").read_bytes()]
        return digest_of(*parts, *(source.read_bytes() for source in sources))


def digest_of(*parts: bytes) -> str:
    """One hash of several parts, whatever they hold."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
