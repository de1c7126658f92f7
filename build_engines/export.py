"""Makes networks ONNX files for ONNX Runtime, and proves that they do what torch does.

MODEL is encoder (the text encoder) or vocoder (the codec's network); both without. A file gets its name, and
its manifest, only when it passes `parity`. `configs/onnxruntime.pbtxt` of the models serves them:
`talkahead serve --model-config-name onnxruntime`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import onnx
import torch
from talkahead.errors import ArtifactMismatch
from talkahead.families.onnx_network import engine_folder, export_command
from talkahead.manifest import Manifest, readable_files, sha256

from build_engines.engine_source import EngineSource
from build_engines.engine_sources import SOURCES
from build_engines.figures import Parity
from build_engines.onnx_file import OPSET
from instruments.environment import REPOSITORY
from instruments.provenance import source_commit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", choices=[[], *SOURCES], metavar="MODEL", help="(all of them)")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where there is no such network, or where the file does something else."""
    for model in options.models or SOURCES:
        _export(model, SOURCES[model](options.repository))


def _export(model: str, source: EngineSource) -> None:
    version = source.version
    with tempfile.TemporaryDirectory(dir=version) as outer:
        made = Path(outer) / "made"
        made.mkdir()
        path = made / source.file.name
        print(f"export: {model}: tracing the network", flush=True)
        source.write(path)
        print(f"export: {model}: comparing it with torch", flush=True)
        parity = source.parity_of_file(path)
        print(parity.table())
        if not parity.passes:
            raise ArtifactMismatch(f"{path.name} does not do what torch does, and is not kept")
        _manifest(source, path, parity).write(made)
        shutil.rmtree(engine_folder(version), ignore_errors=True)
        made.rename(engine_folder(version))
    print(f"export: {engine_folder(version)}")


def _manifest(source: EngineSource, path: Path, parity: Parity) -> Manifest:
    weights, trained = source.version / source.file.weights, Manifest.read(source.version)
    return Manifest(
        command=export_command(source.version),
        source_commit=source_commit(),
        data=f"{weights}; torch {torch.__version__}, onnx {onnx.__version__}, opset {OPSET}",
        steps=trained.steps,
        metrics=parity.metrics,
        files=readable_files([path]),
        licence=trained.licence,
        target=sha256(weights),
    )
