"""How good the running server's speech is, beside the teacher's and the codec's copy of the teacher.

    talkahead serve &   # prints its address
    python -m training.evaluate --server 127.0.0.1:8001
    python -m training.evaluate --copies   # the codec alone, without a server

Held-out sentences of eight categories, at the shipped defaults: word errors by Whisper tiny.en; DNSMOS;
likeness of the speaker; STOI of the codec's copy; durations; phrases skipped or repeated; differences to the
teacher with paired bootstrap intervals. Of the server also clicks where chunks and segments meet, and pauses.
Limits come last.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import TypeVar

from talkahead_client import Client

from instruments import report
from instruments.environment import Environment
from instruments.material import Paragraph, Sentence, held_out_sentences, paragraphs
from instruments.measures.ear import Ear
from instruments.measures.joins import sharpness_db
from instruments.recording import Recording
from instruments.sentences import SPLITS
from instruments.server import served_repository
from instruments.setting import Setting
from training.code_corpus import VOICES
from training.comparison import compare
from training.evaluation import CopyEvaluation, Evaluation
from training.passage import passages
from training.served_speech import Request, ServedSpeech, speak_all

T = TypeVar("T")

PER_CATEGORY, QUICK_PER_CATEGORY = 110, 10
NUM_PARAGRAPHS = 10
_CONTROL_S = 0.1
"""A place so often is measured beside the joins."""


def sharpness(speeches: Sequence[ServedSpeech]) -> dict[str, list[float]]:
    """Of every chunk join, every segment join, and some places elsewhere."""
    found: dict[str, list[float]] = {"chunk join": [], "segment join": [], "elsewhere": []}
    for speech in speeches:
        joins = {*speech.chunk_joins, *speech.segment_joins}
        recording = speech.recording
        control = range(0, len(recording.samples), round(_CONTROL_S * recording.rate_hz))
        elsewhere = [place for place in control if place not in joins]
        for name, places in zip(found, (speech.chunk_joins, speech.segment_joins, elsewhere), strict=True):
            found[name] += sharpness_db(recording, places).tolist()
    return found


def requests(lines: Sequence[Sentence | Paragraph]) -> list[Request]:
    return [Request(line.text, line.voice) for line in lines]


def evaluate(options: argparse.Namespace) -> Evaluation:
    with Client(options.server) as client:
        voices = [options.voice or client.voices()[0]]
    sentences = held_out_sentences(options.split, options.per_category, voices, options.seed)
    texts = paragraphs(sentences, NUM_PARAGRAPHS, voices)
    setting = Setting(options.codec, options.cache)
    speeches: list[ServedSpeech] = []

    def served() -> Iterator[Recording]:
        for speech in speak_all(options.server, requests(sentences), options.streams, options.seed):
            speeches.append(speech)
            yield speech.recording

    rows = _watched(compare(setting, sentences, served(), options.workers), len(sentences))
    read_out = list(speak_all(options.server, requests(texts), options.streams, options.seed))
    read = list(passages(Ear(), texts, [speech.recording for speech in read_out]))
    return Evaluation.of(rows, read, sharpness([*speeches, *read_out]))


def evaluate_copies(options: argparse.Namespace) -> CopyEvaluation:
    sentences = held_out_sentences(options.split, options.per_category, VOICES, options.seed)
    setting = Setting(options.codec, options.cache)
    rows = compare(setting, sentences, repeat(None, len(sentences)), options.workers)
    return CopyEvaluation.of(_watched(rows, len(sentences)))


def _watched(rows: Iterator[T], count: int) -> list[T]:
    """The rows, with a line of progress now and then."""
    done = []
    for row in rows:
        done.append(row)
        if len(done) % 20 == 0:
            print(f"evaluate: {len(done)} of {count}", flush=True)
    return done


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="training.evaluate", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    judged = parser.add_mutually_exclusive_group(required=True)
    judged.add_argument("--server", help="gRPC address of a running server")
    judged.add_argument("--copies", action="store_true", help="no server: the codec's copies alone")
    add("--repository", type=Path,
        help="the server's model repository, which the report names the weights of (unknown)")  # fmt: skip
    add("--per-category", type=int, default=PER_CATEGORY, metavar="N",
        help="sentences of each category (default: %(default)s)")  # fmt: skip
    add("--quick", dest="per_category", action="store_const", const=QUICK_PER_CATEGORY,
        help=f"{QUICK_PER_CATEGORY} sentences of each category")  # fmt: skip
    add("--voice", help="of the server (default: its first)")
    add("--split", default="test", choices=SPLITS[1:])
    add("--streams", type=int, default=2, help="sentences spoken at a time")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes that measure")
    add("--seed", type=int, default=1, help="of the choice of sentences and of the server's draws")
    add("--codec", type=Path, default=Path("training/checkpoints"),
        help="what its training wrote, or is kept of it (default: %(default)s)")  # fmt: skip
    add("--cache", type=Path, default=Path("build/evaluate"),
        help="where what was measured of teacher and codec is kept")  # fmt: skip
    add("--out", type=Path, help="JSON with every sentence")
    return parser


def main() -> None:
    options = _parser().parse_args()
    environment = Environment.record(served_repository(options))
    evaluation = evaluate_copies(options) if options.copies else evaluate(options)
    print(*evaluation.tables(), sep="\n\n")
    if options.out:
        settings = {"split": options.split, "seed": options.seed}
        report.save(options.out, evaluation.KIND, environment, settings, [evaluation])


if __name__ == "__main__":
    main()
