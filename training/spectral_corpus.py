"""What the spectral codec learns from: segments as the neural teacher makes them, in shards.

A shard is an `.npz` file of rows side by side, written in one move: an interrupted build goes on where it
stopped. It is made again in minutes, so it is never kept for good.

Shapes: F frames, S = 2 F subframes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
from talkahead.errors import BadRequest
from talkahead.text import TextFrontend
from talkahead.text.frontend import TextSegment

from instruments.neural_teacher import HOP, SAMPLE_RATE, NeuralTeacher, Speech
from instruments.sentences import assorted

SHARD_TEXTS = 200
MAX_FRAMES = round(12.0 * SAMPLE_RATE / HOP)
"""Of a segment: twelve seconds."""
_PAUSED = 3
SPEEDS = (1.0, 1.0, 0.85, 1.15)
"""Of texts in turn: a voice is asked to speak faster or slower now and then."""

Floats = npt.NDArray[np.float32]
_OF_FRAMES = ("phones", "symbols")
"""All else has two subframes in each frame."""


@dataclass(frozen=True)
class Row:
    """A segment: phones [F, 128], prosody [S, 2], hidden [S, 256], hertz [S], as in `Speech`; and the symbol
    that is heard in each frame [F], whole numbers."""

    phones: Floats
    prosody: Floats
    hidden: Floats
    hertz: Floats
    symbols: Floats

    @classmethod
    def of(cls, speech: Speech, symbols: npt.NDArray[np.int32]) -> Row:
        """Of a segment with these symbols [T]."""
        heard = symbols[speech.spoken].astype(np.float32)
        return cls(speech.phones, speech.prosody, speech.hidden, speech.hertz, heard)

    def then(self, other: Row) -> Row:
        """One after the other."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Row(*map(np.concatenate, pairs))


@cache
def teacher() -> NeuralTeacher:
    """This process's."""
    return NeuralTeacher()


@cache
def _frontend() -> TextFrontend:
    return TextFrontend()


def segments_of(text: str) -> list[TextSegment]:
    """Those that a corpus takes; none of a text that cannot be spoken: WordNet has formulae and foreign
    scripts."""
    try:
        return _frontend().segments(text)
    except BadRequest:
        return []


def _spoken(texts: Sequence[str], speeds: Sequence[float]) -> Iterator[Row]:
    """Every segment that is not too long. One of `_PAUSED` texts goes on after the one before it, with the
    silence of both between them: the talker's segments end with pauses."""
    before: Row | None = None
    for place, text in enumerate(texts):
        is_paused = place % _PAUSED == _PAUSED - 1
        for segment in segments_of(text):
            speech = teacher().speak(segment.spoken, speeds[place % len(speeds)], is_cut=not is_paused)
            row = Row.of(speech, segment.symbols[:, 0])
            if len(row.phones) > MAX_FRAMES:
                continue
            yield before.then(row) if before and is_paused else row
            before = row


def _build_shard(path: Path, texts: Sequence[str], speeds: Sequence[float]) -> float:
    rows = list(_spoken(texts, speeds))
    partial_path = path.with_suffix(".partial.npz")
    np.savez(
        partial_path,
        num_frames=np.array([len(row.phones) for row in rows]),
        **{
            name: np.concatenate([getattr(row, name) for row in rows]).astype(np.float16)
            for name in Row.__annotations__
        },
    )
    partial_path.rename(path)
    return hours(sum(len(row.phones) for row in rows))


def hours(frames: int) -> float:
    """That frames last."""
    return float(frames * HOP / SAMPLE_RATE / 3600)


def build(folder: Path, texts: Sequence[str], speeds: Sequence[float], workers: int) -> None:
    """Speaks every text once and prints its progress in hours of speech."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = {
        folder / f"{first // SHARD_TEXTS:05d}.npz": texts[first : first + SHARD_TEXTS]
        for first in range(0, len(texts), SHARD_TEXTS)
    }
    missing = [path for path in shards if not path.exists()]
    new_hours = 0.0
    # Not by fork: a lock that another thread holds would stay locked in the children.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = [pool.submit(partial(_build_shard, speeds=speeds), path, shards[path]) for path in missing]
        for done, job in enumerate(as_completed(jobs), 1):
            new_hours += job.result()
            print(
                f"spectral corpus: shard {done}/{len(missing)}, {new_hours:.2f} hours of speech new",
                flush=True,
            )


def rows(path: Path) -> Iterator[Row]:
    """Of one shard."""
    data = np.load(path)
    frames = np.concatenate([[0], np.cumsum(data["num_frames"])])
    parts = {name: data[name].astype(np.float32) for name in Row.__annotations__}
    for first, beyond in pairwise(frames):
        yield Row(
            **{
                name: part[first:beyond] if name in _OF_FRAMES else part[2 * first : 2 * beyond]
                for name, part in parts.items()
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.spectral_corpus", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/spectral"), help="where shards are written"
    )
    parser.add_argument("--texts", type=int, default=6_000, help="about 6 hours")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for split, count in (("train", options.texts), ("development", 200)):
        build(options.folder / split, assorted(split, count), SPEEDS, options.workers)


if __name__ == "__main__":
    main()
