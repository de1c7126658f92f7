"""A model's network, as engines are made of it and compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from talkahead.backbone.decoder_choice import Precision
from talkahead.cpu_path import has_bfloat16_products
from talkahead.draft_training.reader import VERSION
from talkahead.errors import TalkaheadError
from talkahead.families.onnx_network import NetworkFile
from talkahead.families.phonemic.frontend import NAME
from talkahead.speech_format import SpeechFormat

from build_engines.figures import Parity


class EngineSource(Protocol):
    """Of one model of a repository."""

    @property
    def version(self) -> Path:
        """The model's version folder."""

    @property
    def file(self) -> NetworkFile: ...

    def write(self, path: Path) -> None:
        """The network as ONNX."""

    def parity_of_file(self, path: Path) -> Parity:
        """Of a file that `write` wrote, run by ONNX Runtime."""

    def parity(self, engine: str) -> Parity:
        """Of an engine as a server loads it; raises ArtifactMismatch where there is none that fits."""


def version_folder(repository: Path, model: str) -> Path:
    """Raises TalkaheadError where it is of a family of which no engines are made."""
    try:
        family = SpeechFormat.read(repository / "vocoder" / VERSION).family
    except OSError as error:
        raise TalkaheadError(f"--repository {repository} holds no voice ({error})") from error
    if family != NAME:
        raise TalkaheadError(
            f"--repository {repository} holds a voice of the family {family}; engines are made of {NAME} "
            "voices alone"
        )
    return repository / model / VERSION


def cpu_precision(is_rounded: bool) -> Precision:
    """Of products of an engine that rounds them where this machine's CPU multiplies what is rounded."""
    return Precision.BFLOAT16 if is_rounded and has_bfloat16_products() else Precision.FLOAT32
