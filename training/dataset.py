"""What the talker learns from: codec frames, symbols and their alignment, for every utterance of the corpus.

`python -m training.dataset` writes one file; `Dataset` reads it and cuts batches of similar lengths.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
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
from torch import Tensor
from torch.nn import functional

from training import corpus
from training.alignment import frame_symbols
from training.corpus import Entry

STEP = 16
"""Lengths are padded to multiples of this."""
_CHUNK = 64


@dataclass(frozen=True)
class Batch:
    """Padded rows: symbols [B, S, 4], frames and spoken [B, F]; their lengths and the voices [B]."""

    symbols: Tensor
    num_symbols: Tensor
    voices: Tensor
    frames: Tensor
    num_frames: Tensor
    spoken: Tensor


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
        json.dumps({"utterances": len(rows), "hours": hours, "voices": voices}, indent=2)
    )


class Dataset:
    """Reads one split of a prepared file."""

    def __init__(self, path: Path, split: str) -> None:
        data = np.load(path)
        self.voice_names = tuple(str(name) for name in data["voice_names"])
        self._symbols, self._frames, self._spoken = data["symbols"], data["frames"], data["spoken"]
        self._voices, self._num_symbols = data["voices"], data["num_symbols"]
        self._symbol_starts = np.concatenate([[0], np.cumsum(data["num_symbols"])])
        self._frame_starts = np.concatenate([[0], np.cumsum(data["num_frames"])])
        self._rows = np.flatnonzero(data["splits"] == split)
        self._lengths: npt.NDArray[np.int64] = data["num_symbols"] + data["num_frames"]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def num_tokens(self) -> int:
        """Symbols and frames together."""
        return int(self._lengths[self._rows].sum())

    def batches(self, tokens: int, seed: int, prompted: float = 0.0, max_length: int = 0) -> Iterator[Batch]:
        """One pass in random order, about `tokens` padded positions a batch.

        A share `prompted` of the utterances comes in pairs of a voice, one after the other, the voice itself
        untold: so the talker learns to go on as a reference speaks. A pair is at most `max_length` long.

        Items are grouped by length in steps of `STEP` and groups of a length are equally large, so that few
        shapes occur: the matrix library compiles a kernel for each.
        """
        draw = np.random.default_rng(seed)
        items = self._items(draw, prompted, max_length)
        lengths = np.array([self._lengths[list(item)].sum() for item in items])
        order = draw.permutation(len(items))
        steps = -(-(lengths[order] + 1) // STEP)
        groups = []
        for length in np.unique(steps):
            rows = order[steps == length]
            size = max(1, tokens // (int(length) * STEP))
            groups += [rows[start : start + size] for start in range(0, len(rows), size)]
        for index in draw.permutation(len(groups)):
            yield self._batch([items[row] for row in groups[index]])

    def _items(self, draw: np.random.Generator, prompted: float, max_length: int) -> list[tuple[int, ...]]:
        """Every utterance of the split once, alone or in a pair."""
        shuffled = draw.permutation(self._rows)
        cut = round(prompted * len(shuffled))
        items: list[tuple[int, ...]] = [(int(row),) for row in shuffled[cut:]]
        for voice in range(len(self.voice_names)):
            rows = [int(row) for row in shuffled[:cut] if self._voices[row] == voice]
            for first, second in zip(rows[0::2], rows[1::2], strict=False):
                fits = self._lengths[first] + self._lengths[second] < max_length
                items += [(first, second)] if fits else [(first,), (second,)]
            items += [(row,) for row in rows[len(rows) // 2 * 2 :]]
        return items

    def _batch(self, items: list[tuple[int, ...]]) -> Batch:
        symbols, num_symbols = self._padded(items, self._symbols, self._symbol_starts)
        frames, num_frames = self._padded(items, self._frames, self._frame_starts)
        spoken, _ = self._padded(items, self._spoken, self._frame_starts, self._num_symbols)
        untold = len(self.voice_names)
        voices = torch.tensor([self._voices[item[0]] if len(item) == 1 else untold for item in items])
        return Batch(symbols, num_symbols, voices, frames, num_frames, spoken)

    @staticmethod
    def _padded(
        items: list[tuple[int, ...]],
        values: npt.NDArray[np.int16],
        starts: npt.NDArray[np.int64],
        shifts: npt.NDArray[np.int64] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The items' values one after the other, padded, and their lengths. Values that are places move by
        what stands before them (`shifts`)."""
        pieces = []
        for item in items:
            parts = [values[starts[row] : starts[row + 1]].astype(np.int64) for row in item]
            if shifts is not None and len(item) == 2:
                parts[1] = parts[1] + shifts[item[0]]
            pieces.append(torch.from_numpy(np.concatenate(parts)))
        lengths = torch.tensor([len(piece) for piece in pieces])
        padded = torch.nn.utils.rnn.pad_sequence(pieces, batch_first=True)
        return functional.pad(padded, (0, -len(padded[0]) % STEP)), lengths


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
