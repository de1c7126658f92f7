"""Makes networks ONNX files, and proves that what runs them does what torch does.

MODEL is encoder (the text encoder of our voices) or vocoder (the codec's network, ours or an imported
voice's); without, all that the voice has. A file gets its name, and its manifest, only when every engine that
runs it passes `parity`. An imported voice is decoded by the fastest of them from then on; ours where it is
asked for: `talkahead serve --model-config-name onnxruntime`.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

import onnx
from talkahead.errors import ArtifactMismatch
from talkahead.families.network_file import export_command, format_of, onnx_folder
from talkahead.families.phonemic.frontend import NAME
from talkahead.manifest import Manifest, readable_files, sha256

from build_engines.network_source import NetworkSource, family_of
from build_engines.network_sources import SOURCES
from build_engines.onnx_file import OPSET, write_onnx
from instruments.environment import REPOSITORY
from instruments.provenance import source_commit

_MAKERS = ("torch", "onnx", "onnxscript")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", choices=[[], *SOURCES], metavar="MODEL", help="(all of them)")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where there is no such network, or where the file does something else."""
    all_of_them = SOURCES if family_of(options.repository) == NAME else ("vocoder",)
    for model in options.models or all_of_them:
        _export(model, SOURCES[model], options.repository)


def _export(model: str, source_of: Callable[[Path], NetworkSource], repository: Path) -> None:
    source = source_of(repository)
    with tempfile.TemporaryDirectory(dir=source.version) as outer:
        twin = source_of(_twin(repository.resolve(), source.version.resolve(), Path(outer)))
        made = onnx_folder(twin.version)
        made.mkdir()
        path = made / source.file.name
        print(f"export: {model}: tracing the network", flush=True)
        write_onnx(source.trace(), source.file, path)
        manifest = _manifest(source, path)
        manifest.write(made)
        metrics = {engine: _figures(model, twin, engine) for engine in source.engines}
        replace(manifest, metrics=metrics).write(made)
        shutil.rmtree(onnx_folder(source.version), ignore_errors=True)
        made.rename(onnx_folder(source.version))
    print(f"export: {onnx_folder(source.version)}")


def _twin(repository: Path, version: Path, outer: Path) -> Path:
    """A repository of links in which the file can be loaded as a server does, before it has its name."""
    twin, model = outer / "repository", version.parent.name
    (twin / model / version.name).mkdir(parents=True)
    for other in repository.iterdir():
        if other.name != model:
            (twin / other.name).symlink_to(other)
    for part in version.iterdir():
        if part not in (onnx_folder(version), outer.resolve()):
            (twin / model / version.name / part.name).symlink_to(part)
    return twin


def _figures(model: str, twin: NetworkSource, engine: str) -> Mapping[str, float]:
    """Raises ArtifactMismatch where an engine does not pass."""
    print(f"export: {model}: comparing {engine} with torch", flush=True)
    parity = twin.parity(engine)
    print(parity.table())
    if not parity.passes:
        raise ArtifactMismatch(f"{twin.file.name} by {engine} does not do what torch does, and is not kept")
    return parity.metrics


def _manifest(source: NetworkSource, path: Path) -> Manifest:
    version = source.version
    weights, trained = version / source.file.weights, Manifest.read(version)
    return Manifest(
        command=export_command(version),
        source_commit=source_commit(),
        data=str(weights),
        steps=trained.steps,
        metrics={},
        files=readable_files([path]),
        licence=trained.licence,
        target=sha256(weights),
        engine={
            "format": sha256(format_of(version)),
            "precision": "float32",
            "opset": OPSET,
            "shapes": _shapes(path),
            "versions": {name: package_version(name) for name in (*_MAKERS, *source.engines)},
            "machine": platform.machine(),
        },
    )


def _shapes(path: Path) -> dict[str, list[Any]]:
    """Of a file's inputs, by name: sizes, and names of those that may be of any size."""
    given = onnx.load(path, load_external_data=False).graph.input
    return {
        one.name: [size.dim_param or size.dim_value for size in one.type.tensor_type.shape.dim]
        for one in given
    }
