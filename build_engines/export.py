"""Makes networks ONNX files, and proves that what runs them does what torch does.

MODEL is encoder (the text encoder of our voices), vocoder (what speaks of the codec, ours or an imported
voice's) or listener (what an imported codec hears recordings with); without, all that the voice has. A file
gets its name, and its manifest, only when every engine that runs it passes `parity`. An imported voice is
decoded, and hears, by the fastest of them from then on; ours where it is asked for: `talkahead serve
--model-config-name onnxruntime`.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version as package_version
from pathlib import Path

from talkahead.families.network_file import format_of
from talkahead.manifest import Manifest, readable_files, sha256

from build_engines.network_source import NetworkSource
from build_engines.network_sources import SOURCES, networks_of
from build_engines.onnx_file import OPSET, input_shapes, write_onnx
from build_engines.repository_twin import put_in_place, twin_of
from instruments.environment import REPOSITORY
from instruments.provenance import source_commit

_MAKERS = ("torch", "onnx", "onnxscript")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", choices=[[], *SOURCES], metavar="MODEL", help="(all of them)")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where there is no such network, or where the file does something else."""
    for model in options.models or networks_of(options.repository):
        _export(model, SOURCES[model](options.repository))


def _export(model: str, source: NetworkSource) -> None:
    with tempfile.TemporaryDirectory(dir=source.version) as outer:
        folder = source.file.folder_in(source.version)
        twin = source.at(twin_of(source.version, folder, Path(outer)))
        made = source.file.folder_in(twin.version)
        made.mkdir()
        path = made / source.file.name
        print(f"export: {model}: tracing the network", flush=True)
        write_onnx(source.trace(), source.file, path)
        manifest = _manifest(source, path)
        manifest.write(made)
        metrics = {engine: _figures(model, twin, engine) for engine in source.engines}
        replace(manifest, metrics=metrics).write(made)
        put_in_place(made, folder)
    print(f"export: {folder}")


def _figures(model: str, twin: NetworkSource, engine: str) -> Mapping[str, float]:
    """Raises ArtifactMismatch where an engine does not pass."""
    print(f"export: {model}: comparing {engine} with torch", flush=True)
    parity = twin.parity(engine)
    print(parity.table())
    parity.require(f"{twin.file.name} by {engine}")
    return parity.metrics


def _manifest(source: NetworkSource, path: Path) -> Manifest:
    version = source.version
    weights, trained = version / source.file.weights, Manifest.read(version)
    return Manifest(
        command=source.file.export_command(version),
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
            "shapes": input_shapes(path),
            "versions": {name: package_version(name) for name in (*_MAKERS, *source.engines)},
            "machine": platform.machine(),
        },
    )
