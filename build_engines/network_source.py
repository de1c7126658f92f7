"""A model's network, as engines are made of it and compared with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from talkahead.draft_training.reader import VERSION
from talkahead.errors import TalkaheadError
from talkahead.families.network_file import NetworkFile
from talkahead.speech_format import SpeechFormat
from torch import Tensor, nn

from build_engines.figures import Parity

InputShapes = Callable[[int, int], Mapping[str, tuple[int, ...]]]
"""Of so many windows of so many frames: by input."""


@dataclass(frozen=True)
class Trace:
    """What a network becomes a file by.

    Args:
        network: takes tensors, gives a tuple of tensors.
        example: of its inputs.
        dynamic: by its parameters' names, as `torch.export` takes it: dimensions that may be of any size.
        shapes: of its inputs for windows; None where more than rows and frames make them.
    """

    network: nn.Module
    example: tuple[Tensor, ...]
    dynamic: Mapping[str, Any]
    shapes: InputShapes | None = None


class NetworkSource(Protocol):
    """Of one model of a repository."""

    @property
    def version(self) -> Path:
        """The model's version folder."""

    @property
    def file(self) -> NetworkFile: ...

    @property
    def engines(self) -> Sequence[str]:
        """Those that run the file."""

    def at(self, repository: Path) -> NetworkSource:
        """The same model of another repository."""

    def trace(self) -> Trace: ...

    def parity(self, engine: str) -> Parity:
        """Of an engine as a server loads it; raises ArtifactMismatch where there is none that fits."""


def version_folder(repository: Path, model: str) -> Path:
    return repository / model / VERSION


def family_of(repository: Path) -> str:
    """Raises TalkaheadError where a repository holds no voice."""
    try:
        return SpeechFormat.read(version_folder(repository, "vocoder")).family
    except OSError as error:
        raise TalkaheadError(f"--repository {repository} holds no voice ({error})") from error
