"""Prepares what the talker learns from: codec frames, symbols and their alignment, of the whole corpus.

`python -m training.dataset` writes one file; `instruments.dataset` reads it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from talkahead.audio.codec import Codec
from talkahead.text import TextFrontend
from talkahead.text.symbols import SYMBOLS

from training import corpus
from training.alignment import frame_symbols
from training.corpus import Entry

_CHUNK = 64


def encode(codec: Codec, audio: Sequence[npt.NDArray[np.int16]]) -> list[npt.NDArray[np.int16]]:
    """Codes of each recording, whole frames only."""
    hop = codec.config.hop
    lengths = torch.tensor([len(samples) // hop for samples in audio])
    padded = torch.zeros(len(audio), int(lengths.max()) * hop)
    for row, samples in enumerate(audio):
        usable = len(samples) // hop * hop
        padded[row, :usable] = torch.from_numpy(samples[:usable].astype(np.float32) / 32768.0)
    codes = codec.encode(padded, lengths).numpy().astype(np.int16)
    return [codes[row, :length] for row, length in enumerate(lengths)]


@dataclass(frozen=True)
class _Row:
    symbols: npt.NDArray[np.int16]
    frames: npt.NDArray[np.int16]
    spoken: npt.NDArray[np.int16]
    entry: int


def _prepare(codec_folder: Path, work: tuple[int, list[Entry]]) -> list[_Row]:
    torch.set_num_threads(1)
    codec, frontend = Codec.load(codec_folder), TextFrontend()
    first, entries = work
    rows = []
    by_length = sorted(range(len(entries)), key=lambda place: entries[place].samples)
    for start in range(0, len(entries), _CHUNK):
        places = by_length[start : start + _CHUNK]
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            codes = encode(codec, [entries[place].audio() for place in places])
        for place, frames in zip(places, codes, strict=True):
            entry = entries[place]
            segments = frontend.segments(entry.words)
            if len(segments) != 1:
                continue
            symbols = segments[0].symbols
            names = [SYMBOLS[index] for index in symbols[:, 0]]
            spoken = frame_symbols(names, entry.phones, len(frames))
            rows.append(_Row(symbols.astype(np.int16), frames, spoken, first + place))
    return rows


def prepare(corpus_folder: Path, codec_folder: Path, path: Path, workers: int) -> None:
    """Encodes and aligns the whole corpus into one `.npz`."""
    entries = corpus.read(corpus_folder)
    size = 2000
    work = [(start, entries[start : start + size]) for start in range(0, len(entries), size)]
    rows: list[_Row] = []
    with ProcessPoolExecutor(workers) as pool:
        for done, part in enumerate(pool.map(partial(_prepare, codec_folder), work), 1):
            rows.extend(part)
            print(f"dataset: {done}/{len(work)} parts, {len(rows)} utterances", flush=True)
    voices = sorted({entry.voice for entry in entries}, reverse=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        symbols=np.concatenate([row.symbols for row in rows]),
        frames=np.concatenate([row.frames for row in rows]),
        spoken=np.concatenate([row.spoken for row in rows]),
        num_symbols=np.array([len(row.symbols) for row in rows]),
        num_frames=np.array([len(row.frames) for row in rows]),
        voices=np.array([voices.index(entries[row.entry].voice) for row in rows]),
        splits=np.array([entries[row.entry].split for row in rows]),
        voice_names=np.array(voices),
    )
    hours = {
        split: round(sum(e.samples for e in entries if e.split == split) / 57.6e6, 2)
        for split in {e.split for e in entries}
    }
    path.with_suffix(".json").write_text(
        json.dumps({"utterances": len(rows), "hours": hours, "voices": voices}, indent=2),
        encoding="utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.dataset", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("build/corpus"))
    parser.add_argument("--codec", type=Path, default=Path("build/training/codec"))
    parser.add_argument("--out", type=Path, default=Path("build/training/dataset.npz"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    prepare(options.corpus, options.codec, options.out, options.workers)


if __name__ == "__main__":
    main()
