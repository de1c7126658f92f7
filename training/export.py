"""Puts networks into the model repository in half precision, each with its manifest."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from talkahead.audio.codec import Codec
from talkahead.backbone.llama import Llama
from talkahead.backbone.text_encoder import TextEncoder
from talkahead.manifest import NAME, Manifest, sha256
from torch import nn

LICENCE = (
    "Apache-2.0. Learned from speech made by flite 2.2 with the voices cmu_us_slt, cmu_us_rms, cmu_us_awb "
    "and cmu_us_kal16 (Carnegie Mellon University, BSD-like licence; Debian package libflite1) of sentences "
    "from WordNet 3.0 (Princeton University, WordNet licence; Debian package wordnet-base) and of patterns "
    "written for this project."
)


def source_commit() -> str:
    """The checked-out commit, or `unknown` outside a repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def silence_code(codec: Codec, frames: int = 50) -> int:
    """The code that the encoder gives digital silence, away from its edges."""
    silence = torch.zeros(1, frames * codec.config.hop)
    return int(codec.encode(silence, torch.tensor([frames]))[0, frames // 2])


def readable_files(paths: Iterable[Path]) -> dict[str, str]:
    """Hashes by name, as manifests hold them, of files that everybody may read from now on."""
    found = {}
    for path in paths:
        path.chmod(0o644)  # safetensors writes 0600, which a container's own user could not read
        found[path.name] = sha256(path)
    return found


def put(
    network: nn.Module, folder: Path, command: str, data: str, steps: int, metrics: dict[str, object]
) -> None:
    """Saves `network` in half precision into a version folder, with its manifest.

    The talker's weights are bfloat16, as its decode step reads them, so nothing is rounded later.
    """
    assert isinstance(network, Codec | TextEncoder | Llama)
    network.to(torch.bfloat16 if isinstance(network, Llama) else torch.float16).save(folder)
    written = (path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors"))
    files = readable_files(path for path in written if path.name != NAME)
    Manifest(command, source_commit(), data, steps, metrics, files, LICENCE).write(folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.export", description=__doc__)
    parser.add_argument(
        "--training", type=Path, default=Path("build/training"), help="what the trainings wrote"
    )
    parser.add_argument("--repository", type=Path, default=Path("model_repository"))
    parser.add_argument("--note", default="", help="what else the manifests should say of this training")
    options = parser.parse_args()
    source: Path = options.training
    data = json.loads((source / "dataset.json").read_text())
    voices = ", ".join(data["voices"])
    described = f"{data['utterances']} utterances of the voices {voices}; hours by split: {data['hours']}"
    described = f"{described}. {options.note}" if options.note else described
    codec_report = json.loads((source / "refined.report.json").read_text())
    codec = Codec.load(source / "refined")
    codec.config = replace(codec.config, silence_code=silence_code(codec))
    talker_report = json.loads((source / "talker.report.json").read_text())
    for network, model, command, report in (
        (codec, "vocoder", "make train", codec_report),
        (TextEncoder.load(source / "encoder"), "encoder", "make train", talker_report),
        (Llama.load(source / "talker"), "talker", "make train", talker_report),
    ):
        put(network, options.repository / model / "1", command, described, report["steps"], report["metrics"])
        print(f"export: {options.repository / model / '1'}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
