"""What the talker learns from: codec frames, symbols and their alignment, for every utterance of the corpus.

`python -m training.code_corpus` writes the file; here it is read, in batches of similar lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from talkahead.draft_training.lesson import IGNORE
from talkahead.errors import TalkaheadError
from torch import Tensor
from torch.nn import functional

STEP = 16
"""Lengths are padded to multiples of this."""


@dataclass(frozen=True)
class Batch:
    """Padded rows: symbols [B, S, 4], frames and spoken [B, F]; their lengths and the voices [B]."""

    symbols: Tensor
    num_symbols: Tensor
    voices: Tensor
    frames: Tensor
    num_frames: Tensor
    spoken: Tensor

    def tokens(self, eos: int) -> Tensor:
        """What a talker draws, int64 [B, T]: frames and the end of speech, then IGNORE."""
        longest = int(self.num_frames.max()) + 1
        place = torch.arange(longest)
        tokens = functional.pad(self.frames, (0, longest))[:, :longest]
        tokens = torch.where(place < self.num_frames[:, None], tokens, IGNORE)
        return torch.where(place == self.num_frames[:, None], eos, tokens)


class Dataset:
    """Reads one split of a prepared file."""

    def __init__(self, path: Path, split: str) -> None:
        """Raises TalkaheadError where it has not been made."""
        if not path.exists():
            raise TalkaheadError(f"{path} is missing; make it: python -m training.code_corpus")
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
