"""Keeps what a training of hours has reached: weights alone, in half precision, laid out as it wrote them.

So `training.export` and the options `--start` take the folder like any other.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.families.phonemic.text_encoder import TextEncoder

from training.spectral_autoencoder import SpectralAutoencoder

REPORTS = ("codec.report.json", "talker.report.json", "dataset.json")


def store_codec(source: Path, folder: Path) -> None:
    SpectralAutoencoder.load(source).half().save(folder)


def store_voice(source: Path, folder: Path) -> None:
    """Text encoder and talker, which were trained together."""
    TextEncoder.load(source / "encoder").half().save(folder / "encoder")
    Llama.load(source / "talker").to(torch.bfloat16).save(folder / "talker")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="training.store_checkpoint", description=__doc__)
    parser.add_argument("--training", type=Path, default=Path("build/training"), help="what trainings wrote")
    parser.add_argument("--folder", type=Path, default=Path("training/checkpoints/next"))
    options = parser.parse_args(arguments)
    source, folder = options.training, options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if (source / "codec").exists():
        store_codec(source, folder)
    if (source / "talker").exists():
        store_voice(source, folder)
    for name in REPORTS:
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    for path in sorted(folder.rglob("*.safetensors")):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
