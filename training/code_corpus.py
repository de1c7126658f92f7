"""What the talker learns from: segments as the neural teacher says them, as codes of the spectral codec.

Made again in minutes, so it is never kept for good. `instruments.dataset` reads it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from instruments.sentences import SPLITS, assorted, split_of
from training.spectral_autoencoder import SpectralAutoencoder
from training.spectral_corpus import MAX_FRAMES, hours, segments_of, teacher

VOICES = ("heart",)
_TEXTS = 500
"""Of one job."""


@dataclass(frozen=True)
class Row:
    """A segment: symbols int16 [U, 4], frames int16 [F], the symbol that each frame speaks int16 [F]."""

    symbols: npt.NDArray[np.int16]
    frames: npt.NDArray[np.int16]
    spoken: npt.NDArray[np.int16]
    split: str


@cache
def _codec(folder: Path) -> SpectralAutoencoder:
    torch.set_num_threads(1)
    return SpectralAutoencoder.load(folder)


def _said(codec_folder: Path, texts: Sequence[str]) -> list[Row]:
    return list(_rows(_codec(codec_folder), texts))


def _rows(codec: SpectralAutoencoder, texts: Sequence[str]) -> Iterator[Row]:
    for text in texts:
        for segment in segments_of(text):
            told = teacher().describe(segment.spoken)
            if told.num_frames > MAX_FRAMES:
                continue
            with torch.inference_mode():
                frames = codec.frames_of(told)[:, 0].astype(np.int16)
            yield Row(segment.symbols.astype(np.int16), frames, told.spoken, split_of(text))


def prepare(codec_folder: Path, path: Path, texts: Sequence[str], workers: int) -> None:
    """Speaks every text once into one `.npz`; what was spoken is told in a `.json` beside it."""
    jobs = [texts[first : first + _TEXTS] for first in range(0, len(texts), _TEXTS)]
    rows: list[Row] = []
    # Not by fork: a lock that another thread holds would stay locked in the children.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for done, part in enumerate(pool.map(partial(_said, codec_folder), jobs), 1):
            rows.extend(part)
            print(f"code corpus: {done}/{len(jobs)} parts, {len(rows)} segments", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        **{
            name: np.concatenate([getattr(row, name) for row in rows])
            for name in ("symbols", "frames", "spoken")
        },
        num_symbols=np.array([len(row.symbols) for row in rows]),
        num_frames=np.array([len(row.frames) for row in rows]),
        voices=np.zeros(len(rows), np.int64),
        splits=np.array([row.split for row in rows]),
        voice_names=np.array(VOICES),
    )
    by_split = {
        split: round(hours(sum(len(row.frames) for row in rows if row.split == split)), 2) for split in SPLITS
    }
    described = json.dumps({"utterances": len(rows), "hours": by_split, "voices": VOICES}, indent=2)
    path.with_suffix(".json").write_text(described, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.code_corpus", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--codec", type=Path, default=Path("build/training"), help="what the codec's training wrote"
    )
    parser.add_argument("--out", type=Path, default=Path("build/training/dataset.npz"))
    parser.add_argument("--texts", type=int, default=60_000, help="of the training (about 45 hours)")
    parser.add_argument(
        "--skip", type=int, default=0, help="texts of the training that were learned from before"
    )
    parser.add_argument("--held-out", type=int, default=1_000, help="of each other split")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    learned = assorted(SPLITS[0], options.skip + options.texts)[options.skip :]
    held_out = (text for split in SPLITS[1:] for text in assorted(split, options.held_out))
    prepare(options.codec, options.out, [*learned, *held_out], options.workers)


if __name__ == "__main__":
    main()
