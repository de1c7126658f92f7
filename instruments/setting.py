"""What tells one measurement of a sentence from another, so that its result can be kept on disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from instruments import measures, neural_teacher
from instruments.environment import REPOSITORY


def decoder_folder(codec: Path) -> Path:
    """Where the decoder lies of a codec that a training wrote; of the shipped one, in the repository: beside
    it the training keeps no more than the encoder of frames, which no server needs."""
    own = codec / "codec"
    return own if own.exists() else REPOSITORY / "vocoder" / "1"


@dataclass(frozen=True)
class Setting:
    """What a measurement depends on beside a sentence and its audio."""

    codec: Path
    cache: Path

    @cached_property
    def digest(self) -> str:
        """Changes with the codec, and with the code that measures and that makes the teacher speak."""
        measuring = sorted(Path(measures.__file__).parent.glob("*.py"))
        sources = [*measuring, Path(neural_teacher.__file__)]
        found = (folder.glob("*.safetensors") for folder in (self.codec, decoder_folder(self.codec)))
        weights = sorted(chain.from_iterable(found))
        return digest_of(*(path.read_bytes() for path in (*weights, *sources)))


def digest_of(*parts: bytes) -> str:
    """One hash of several parts, whatever they hold."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
