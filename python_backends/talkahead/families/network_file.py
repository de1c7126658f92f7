"""Networks as ONNX files beside the weights that they are made of (`python -m build_engines export`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from talkahead.config import folder_beside
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import NAME, Manifest, sha256
from talkahead.speech_format import NAME as FORMAT

_FOLDER = "onnx"


@dataclass(frozen=True)
class NetworkFile:
    """The ONNX file of one model's network.

    Args:
        name: of the file.
        weights: the file of the model's version folder that it is made of.
        inputs, outputs: names of its tensors, in order.
        folder: in which it lies, in the version folder.
        made_as: what `export` calls the network, where that is not the model's name.
    """

    name: str
    weights: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: str = _FOLDER
    made_as: str = ""

    def folder_in(self, version: Path) -> Path:
        """Where it lies in a model's version folder."""
        return version / self.folder

    def is_in(self, version: Path) -> bool:
        """Whether a model's version folder has been given one."""
        return (self.folder_in(version) / NAME).exists()

    def export_command(self, version: Path) -> str:
        """What makes the file of a model's version folder."""
        model = version.parent
        return f"python -m build_engines export {self.made_as or model.name} --repository {model.parent}"

    def require_tensors(self, path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Raises ArtifactMismatch where a file takes or gives others than these."""
        if (tuple(inputs), tuple(outputs)) != (self.inputs, self.outputs):
            raise ArtifactMismatch(
                f"{path} takes and gives the tensors {(tuple(inputs), tuple(outputs))}, not "
                f"{(self.inputs, self.outputs)}"
            )

    def verified(self, version: Path) -> Path:
        """The file of a model's version folder, as its manifest describes it.

        Raises:
            ArtifactMismatch: there is none, it is not whole, or was made of other weights or another format.
        """
        folder, build = self.folder_in(version), self.export_command(version)
        if not self.is_in(version):
            raise ArtifactMismatch(f"{folder / NAME} is missing; build the engine with: {build}")
        manifest = Manifest.read(folder)
        manifest.verify(folder)
        if self.name not in manifest.files:
            raise ArtifactMismatch(f"{folder / NAME} describes no {self.name}; rebuild it with: {build}")
        require_source(manifest, version, self.weights, build)
        return folder / self.name


def require_source(manifest: Manifest, version: Path, weights: str, build: str) -> None:
    """Raises ArtifactMismatch where an engine was made of another source than a version folder's."""
    if manifest.target != sha256(version / weights):
        raise ArtifactMismatch(
            f"the engine of {version} was made of other weights than {version / weights}; rebuild it with: "
            f"{build}"
        )
    if manifest.engine.get("format") != sha256(path := format_of(version)):
        raise ArtifactMismatch(
            f"the engine of {version} was made for another format than {path}; rebuild it with: {build}"
        )


def format_of(version: Path) -> Path:
    """The file of the speech format that a model's version folder belongs to."""
    return folder_beside(version, "vocoder") / FORMAT
