"""How well the running server is understood: word errors and durations beside the teacher's.

    talkahead serve &   # prints its address
    python -m training.evaluate --server 127.0.0.1:8001

Sentences are held out. The recogniser knows their bigrams (see `recogniser`), hears the teacher, the codec's
resynthesis of the teacher, and the server; the difference comes with a paired bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from talkahead.audio.codec import Codec
from talkahead.text import TextFrontend
from talkahead_client import Client

from training.dataset import encode
from training.recogniser import Recogniser
from training.sentences import numbers, prose, split_of
from training.teacher import SAMPLE_RATE, Teacher

Audio = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Sentence:
    """A test sentence as written, as spoken, and the voice that speaks it."""

    text: str
    words: str
    voice: str


@dataclass(frozen=True)
class Row:
    """One sentence: word edits of teacher, codec and server, out of `words`; durations in seconds."""

    text: str
    voice: str
    words: int
    teacher_edits: int
    codec_edits: int
    server_edits: int
    teacher_s: float
    server_s: float
    heard: str

    @property
    def duration_ratio(self) -> float:
        return self.server_s / self.teacher_s


def held_out_sentences(count: int, voices: Sequence[str], split: str) -> list[Sentence]:
    """Held-out sentences of at least four words, one in eight with numbers; voices in turn."""
    frontend = TextFrontend()
    chosen: list[Sentence] = []
    for texts, share in ((numbers(), count // 8), (prose(), count - count // 8)):
        for text in (text for text in texts if split_of(text) == split and len(text.split()) >= 4):
            if share == 0:
                break
            segments = frontend.segments(text)
            if len(segments) == 1:
                chosen.append(Sentence(text, segments[0].words, voices[len(chosen) % len(voices)]))
                share -= 1
    return chosen


def to_int16(audio: npt.NDArray[np.float32]) -> Audio:
    return (np.clip(audio, -1.0, 1.0) * 32767.0).astype(np.int16)


def speak_all(server: str, sentences: Sequence[Sentence], streams: int, seed: int) -> Iterator[Audio]:
    """The server's audio of each sentence, `streams` at a time, in order."""

    def speak(sentence: Sentence) -> Audio:
        chunks = [chunk.audio for chunk in client.speak(sentence.text, voice=sentence.voice, seed=seed)]
        return to_int16(np.concatenate(chunks))

    with Client(server) as client, ThreadPoolExecutor(streams) as pool:
        yield from pool.map(speak, sentences)


def resynthesize(codec: Codec, audio: Audio) -> Audio:
    """The codec's own copy: the floor of what a talker on these codes can reach."""
    with torch.inference_mode():
        codes = torch.from_numpy(encode(codec, [audio])[0].astype(np.int64))
        return to_int16(codec.decode(codes[None])[0].numpy())


def bootstrap_interval(rows: Sequence[Row], draws: int = 2000) -> tuple[float, float]:
    """95 % interval of (server - teacher) word errors, in points, sentences resampled in pairs."""
    difference = np.array([row.server_edits - row.teacher_edits for row in rows])
    words = np.array([row.words for row in rows])
    picks = np.random.default_rng(0).integers(len(rows), size=(draws, len(rows)))
    points = 100 * difference[picks].sum(1) / words[picks].sum(1)
    low, high = np.percentile(points, [2.5, 97.5])
    return float(low), float(high)


def summary(rows: Sequence[Row]) -> dict[str, object]:
    words = sum(row.words for row in rows)
    rates = {
        f"{name}_word_errors_percent": round(
            100 * sum(getattr(row, f"{name}_edits") for row in rows) / words, 2
        )
        for name in ("teacher", "codec", "server")
    }
    ratios = np.array([row.duration_ratio for row in rows])
    within = float(((ratios >= 0.7) & (ratios <= 1.4)).mean())
    return {
        "sentences": len(rows),
        "words": words,
        **rates,
        "server_minus_teacher_points_95": [round(bound, 2) for bound in bootstrap_interval(rows)],
        "durations_within_0.7_to_1.4_percent": round(100 * within, 1),
        "duration_ratio_median": round(float(np.median(ratios)), 3),
    }


def evaluate(options: argparse.Namespace) -> dict[str, Any]:
    with Client(options.server) as client:
        voices = client.voices()
    sentences = held_out_sentences(options.sentences, voices, "test")
    recogniser = Recogniser([sentence.words for sentence in sentences])
    teacher, codec = Teacher(), Codec.load(options.codec)
    rows = []
    audios = speak_all(options.server, sentences, options.streams, options.seed)
    for done, (sentence, audio) in enumerate(zip(sentences, audios, strict=True), 1):
        taught = teacher.speak(sentence.words, sentence.voice).audio
        teacher_errors, codec_errors, server_errors = (
            recogniser.errors(sentence.words, sound) for sound in (taught, resynthesize(codec, taught), audio)
        )
        row = Row(
            sentence.text,
            sentence.voice,
            teacher_errors.words,
            teacher_edits=teacher_errors.edits,
            codec_edits=codec_errors.edits,
            server_edits=server_errors.edits,
            teacher_s=len(taught) / SAMPLE_RATE,
            server_s=len(audio) / SAMPLE_RATE,
            heard=server_errors.heard,
        )
        rows.append(row)
        if done % 20 == 0:
            print(f"evaluate: {done}/{len(sentences)}, {summary(rows)}", flush=True)
    return {"summary": summary(rows), "seed": options.seed, "rows": [asdict(row) for row in rows]}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="training.evaluate", description=__doc__.split("\n")[0] if __doc__ else None
    )
    parser.add_argument("--server", required=True, help="gRPC address of a running server")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--streams", type=int, default=4, help="sentences spoken at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--codec", type=Path, default=Path("model_repository/vocoder/1"))
    parser.add_argument("--out", type=Path, help="JSON with every sentence")
    options = parser.parse_args()
    result = evaluate(options)
    for name, value in result["summary"].items():
        print(f"{name:42} {value}")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
