"""Puts networks into the model repository in half precision, each with its manifest."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from talkahead.audio.codec import Codec
from talkahead.backbone.llama import Llama
from talkahead.backbone.text_encoder import TextEncoder
from talkahead.manifest import NAME, Manifest
from torch import nn

from instruments.provenance import LICENCE, readable_files, source_commit


def silence_code(codec: Codec, frames: int = 50) -> int:
    """The code that the encoder gives digital silence, away from its edges."""
    silence = torch.zeros(1, frames * codec.config.hop)
    return int(codec.encode(silence, torch.tensor([frames]))[0, frames // 2])


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
