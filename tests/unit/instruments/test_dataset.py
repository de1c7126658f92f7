"""Batches hold every utterance once; those that prompt one another are laid end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from instruments.dataset import Dataset

VOICES = ("a", "b")
SIZES = [(3, 20), (4, 31), (2, 15), (5, 40), (3, 22), (4, 18), (6, 44)]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Utterance n has symbols n and frames 10 n; its frames speak symbols 0, 1, 2, .. as far as they go."""
    path = tmp_path / "dataset.npz"
    count = len(SIZES)
    np.savez(
        path,
        symbols=np.concatenate([np.full((s, 4), n, np.int16) for n, (s, _) in enumerate(SIZES)]),
        frames=np.concatenate([np.full(f, 10 * n, np.int16) for n, (_, f) in enumerate(SIZES)]),
        spoken=np.concatenate([np.arange(f, dtype=np.int16) % s for s, f in SIZES]),
        num_symbols=np.array([s for s, _ in SIZES]),
        num_frames=np.array([f for _, f in SIZES]),
        voices=np.array([n % 2 for n in range(count)]),
        splits=np.array(["train"] * count),
        voice_names=np.array(VOICES),
    )
    return Dataset(path, "train")


def utterances_of(dataset: Dataset, prompted: float, max_length: int = 1000) -> list[tuple[list[int], int]]:
    """Of every row: the utterances it holds, and its voice."""
    found = []
    for batch in dataset.batches(200, seed=3, prompted=prompted, max_length=max_length):
        for row in range(len(batch.voices)):
            frames = batch.frames[row, : batch.num_frames[row]] // 10
            parts = torch.unique_consecutive(frames).tolist()
            assert batch.num_frames[row] == sum(SIZES[part][1] for part in parts)
            symbols = batch.symbols[row, : batch.num_symbols[row], 0]
            assert torch.unique_consecutive(symbols).tolist() == parts
            # Every frame speaks a symbol of its own utterance, not of the one beside it.
            spoken = batch.spoken[row, : batch.num_frames[row]]
            assert torch.equal(symbols[spoken], frames)
            found.append((parts, int(batch.voices[row])))
    return found


def test_every_utterance_comes_once_with_its_voice(dataset: Dataset) -> None:
    found = utterances_of(dataset, prompted=0.0)
    assert sorted(part for parts, _ in found for part in parts) == list(range(len(SIZES)))
    assert all(parts[0] % 2 == voice for parts, voice in found)


def test_pairs_are_of_one_voice_which_is_not_told(dataset: Dataset) -> None:
    found = utterances_of(dataset, prompted=1.0)
    assert sorted(part for parts, _ in found for part in parts) == list(range(len(SIZES)))
    pairs = [(parts, voice) for parts, voice in found if len(parts) == 2]
    assert len(pairs) == 3  # of four and of three utterances
    assert all(first % 2 == second % 2 for (first, second), _ in pairs)
    assert all(voice == len(VOICES) for _, voice in pairs)


def test_what_would_be_too_long_stays_alone(dataset: Dataset) -> None:
    assert all(len(parts) == 1 for parts, _ in utterances_of(dataset, prompted=1.0, max_length=30))
