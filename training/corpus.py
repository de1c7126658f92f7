"""The corpus: the teacher speaks the frontend's own normalised words; int16 audio and an index, in shards.

A shard is an `.i16` file and a `.jsonl` file that is written last: an interrupted build goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from talkahead.errors import BadRequest
from talkahead.text import TextFrontend

from instruments.sentences import conversation, numbers, prose, split_of, usage
from instruments.teacher import SAMPLE_RATE, VOICES, Phone, Teacher

SHARD_TEXTS = 400
MAX_SECONDS = 12.0


@dataclass(frozen=True)
class Entry:
    """One utterance of the corpus; its symbols are the frontend's for `words`."""

    words: str
    voice: str
    split: str
    phones: tuple[Phone, ...]
    shard: Path
    start: int
    samples: int

    def audio(self) -> npt.NDArray[np.int16]:
        """int16 [samples], read from the shard."""
        return np.fromfile(self.shard, dtype=np.int16, count=self.samples, offset=2 * self.start)


@cache
def _teacher() -> Teacher:
    return Teacher()


@cache
def _frontend() -> TextFrontend:
    return TextFrontend()


def _spoken(text: str, voice: str) -> Iterator[tuple[dict[str, Any], npt.NDArray[np.int16]]]:
    try:
        segments = _frontend().segments(text)
    except BadRequest:  # WordNet has formulae and foreign scripts; a corpus can do without them
        return
    for segment in segments:
        utterance = _teacher().speak(segment.words, voice)
        if 0.3 < len(utterance.audio) / SAMPLE_RATE <= MAX_SECONDS:
            phones = [[phone.name, round(phone.end_s, 4)] for phone in utterance.phones]
            row = {"words": segment.words, "voice": voice, "split": split_of(text), "phones": phones}
            yield row, utterance.audio


def _build_shard(folder: Path, number: int, texts: Sequence[str], voices: Sequence[str]) -> float:
    audio_path, index_path = folder / f"{number:05d}.i16", folder / f"{number:05d}.jsonl"
    rows, parts, start = [], [], 0
    for place, text in enumerate(texts):
        for row, audio in _spoken(text, voices[(number + place) % len(voices)]):
            rows.append({**row, "start": start, "samples": len(audio)})
            parts.append(audio)
            start += len(audio)
    np.concatenate(parts).tofile(audio_path)
    partial = index_path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    partial.rename(index_path)
    return start / SAMPLE_RATE / 3600


def build(folder: Path, texts: Sequence[str], voices: Sequence[str], workers: int) -> None:
    """Speaks every text once, voices in turn, and prints its progress in hours of speech."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = [texts[first : first + SHARD_TEXTS] for first in range(0, len(texts), SHARD_TEXTS)]
    missing = [number for number in range(len(shards)) if not (folder / f"{number:05d}.jsonl").exists()]
    hours = 0.0
    with ProcessPoolExecutor(workers) as pool:
        jobs = [pool.submit(_build_shard, folder, number, shards[number], voices) for number in missing]
        for done, job in enumerate(as_completed(jobs), 1):
            hours += job.result()
            print(f"corpus: shard {done}/{len(missing)}, {hours:.2f} hours of speech new", flush=True)


def read(folder: Path) -> list[Entry]:
    """Every entry of the shards that are complete, in order."""
    entries = []
    for index in sorted(folder.rglob("*.jsonl")):
        for line in index.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            phones = tuple(Phone(name, end) for name, end in row.pop("phones"))
            entries.append(Entry(**row, phones=phones, shard=index.with_suffix(".i16")))
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.corpus", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/corpus"), help="where shards are written")
    parser.add_argument("--prose", type=int, default=24_000, help="texts without digits (about 20 hours)")
    parser.add_argument("--numbers", type=int, default=6_000, help="texts with digits (about 8 hours)")
    parser.add_argument("--conversation", type=int, default=10_000, help="dialogue, names (about 7 hours)")
    parser.add_argument("--usage", type=int, default=40_000, help="WordNet's examples (about 26 hours)")
    parser.add_argument("--voices", nargs="+", default=VOICES, help="flite's voices to use, in turn")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for name, texts in (
        ("prose", prose()[: options.prose]),
        ("numbers", numbers()[: options.numbers]),
        ("conversation", conversation()[: options.conversation]),
        ("usage", usage()[: options.usage]),
    ):
        build(options.folder / name, texts, options.voices, options.workers)


if __name__ == "__main__":
    main()
