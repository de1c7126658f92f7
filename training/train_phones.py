"""Trains the classifier of phones on the teacher's speech and the ends of its phones. Resumable."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from talkahead.draft_training.schedule import Schedule
from talkahead.draft_training.training_state import TrainingState
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from instruments.teacher import SAMPLE_RATE
from training import corpus
from training.checkpoint import report
from training.corpus import Entry
from training.phone_classifier import HOP, NUM_PHONES, PhoneClassifier

FRAMES = 100
_IGNORE = -100
_FAINTEST, _LOUDEST = 1e-5, 3e-3
"""Of the noise that is laid below the speech, so that silence need not be digital."""


@dataclass(frozen=True)
class Spoken:
    """Audio float32 [B, FRAMES * HOP] and the phone of each frame [B, FRAMES]."""

    audio: Tensor
    phones: Tensor


class SpokenCrops(IterableDataset[Spoken]):
    """Endless random crops of utterances, a second each."""

    def __init__(self, entries: Sequence[Entry], batch: int, seed: int) -> None:
        self._entries, self._batch, self._seed = entries, batch, seed
        names = sorted({phone.name for entry in entries for phone in entry.phones})
        if len(names) > NUM_PHONES:
            raise ValueError(f"{len(names)} phones, and the classifier tells {NUM_PHONES} apart")
        self._index = {name: place for place, name in enumerate(names)}

    def read_ahead(self) -> Iterator[Spoken]:
        """The crops, made in a process of their own."""
        return iter(DataLoader(self, batch_size=None, num_workers=1, prefetch_factor=4))

    def __iter__(self) -> Iterator[Spoken]:
        draw = np.random.default_rng(self._seed)
        while True:
            rows = [
                self._crop(self._entries[place], draw)
                for place in draw.integers(len(self._entries), size=self._batch)
            ]
            yield Spoken(torch.stack([row.audio for row in rows]), torch.stack([row.phones for row in rows]))

    def _crop(self, entry: Entry, draw: np.random.Generator) -> Spoken:
        audio = entry.audio().astype(np.float32) / 32768.0
        begin = int(draw.integers(max(1, len(audio) // HOP - FRAMES))) * HOP
        audio = audio[begin : begin + FRAMES * HOP]
        centres_s = (begin + (np.arange(FRAMES) + 0.5) * HOP) / SAMPLE_RATE
        table = np.array([*(self._index[phone.name] for phone in entry.phones), _IGNORE])
        phones = table[np.searchsorted([phone.end_s for phone in entry.phones], centres_s, side="right")]
        audio = np.pad(audio, (0, FRAMES * HOP - len(audio)))
        noise = np.exp(draw.uniform(np.log(_FAINTEST), np.log(_LOUDEST)))
        audio = audio * np.exp(draw.normal(0, 0.2)) + noise * draw.standard_normal(len(audio))
        return Spoken(torch.from_numpy(audio).float(), torch.from_numpy(phones))


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    classifier = PhoneClassifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=options.rate, weight_decay=1e-2)
    checkpoint = TrainingState(options.out / "phones.pt", classifier, optimizer)
    first = checkpoint.resume()
    schedule = Schedule(options.rate, options.steps, warm_up=50, decay=0.5)
    entries = corpus.read(options.corpus)
    learn = SpokenCrops([e for e in entries if e.split == "train"], options.batch, options.seed + first)
    batches = learn.read_ahead()
    began = time.monotonic()
    for step in range(first, options.steps):
        schedule.apply(optimizer, step)
        batch = next(batches)
        loss = _nats(classifier, batch)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimizer.step()
        if (step + 1) % 50 == 0:
            pace = (time.monotonic() - began) / (step + 1 - first)
            print(
                f"phones: step {step + 1}/{options.steps}, {loss.item():.3f} nats, {pace:.2f} s a step",
                flush=True,
            )
            checkpoint.save(step + 1)
    classifier.save(options.out / "phones.safetensors")
    held_out = next(iter(SpokenCrops([e for e in entries if e.split == "development"], 400, seed=1)))
    with torch.no_grad():
        nats = round(_nats(classifier.eval(), held_out).item(), 4)
    print(f"phones: held-out {nats:.3f} nats a frame", flush=True)
    report(options.out / "phones.report.json", options.steps, {"held_out_nats_per_frame": nats})


def _nats(classifier: PhoneClassifier, batch: Spoken) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = classifier(batch.audio).scores
    return functional.cross_entropy(
        scores.float().flatten(0, 1), batch.phones.flatten(), ignore_index=_IGNORE
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.train_phones", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("build/corpus"))
    parser.add_argument("--out", type=Path, default=Path("build/training"), help="checkpoint and result")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=24, help="crops of a second in a step")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=3)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
