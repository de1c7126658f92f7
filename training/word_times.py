"""How well the running server tells when words begin, beside the teacher's own times of its symbols.

    talkahead serve &   # prints its address
    python -m training.word_times --server 127.0.0.1:8001

The server says a sentence in its own time, so a word's true beginning is looked up: time warping finds in the
server's speech what the teacher says when it begins the word. What that costs is shown by the teacher itself,
slower and faster, whose times are known on both sides; and what it is worth, by characters spread evenly.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from talkahead.families.phonemic.spectral_codec import UNHEARD_FRAMES
from talkahead.text import TextFrontend
from talkahead.text.frontend import TextSegment
from talkahead_client import Client, Spoken

from instruments import report
from instruments.environment import Environment
from instruments.material import Sentence, held_out_sentences
from instruments.neural_teacher import HOP, SAMPLE_RATE, Speech, heard
from instruments.recording import Recording
from instruments.sentences import SPLITS
from training.code_corpus import VOICES
from training.served_speech import ServedSpeech, join
from training.spectral_corpus import teacher
from training.time_warp import TimeWarp

PER_CATEGORY = 12
_SPEEDS = (0.85, 1.15)
"""At which the teacher says a sentence once more."""
TOLD, SPREAD, WARPED = "told by the server", "characters spread evenly", "time warping itself"


@dataclass(frozen=True)
class Row:
    """A sentence, and the errors of its words in milliseconds, those told too late above zero."""

    text: str
    errors_ms: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Finding:
    """Of one way to know when words begin."""

    way: str
    words: int
    median_ms: float
    p90_ms: float
    p99_ms: float
    late_ms: float
    """Mean error, not its size."""

    @classmethod
    def of(cls, way: str, rows: Sequence[Row]) -> Finding:
        errors = np.array([error for row in rows for error in row.errors_ms[way]])
        median, p90, p99 = np.quantile(np.abs(errors), (0.5, 0.9, 0.99))
        return cls(way, len(errors), float(median), float(p90), float(p99), float(errors.mean()))


@dataclass(frozen=True)
class _Said:
    """What the teacher makes of a segment, and when its words begin in it, by their first characters."""

    recording: Recording
    begins_s: Mapping[int, float]

    @classmethod
    def of(cls, segment: TextSegment, speed: float = 1.0) -> _Said:
        speech = teacher().speak(segment.spoken, speed)
        return cls(heard(teacher().render(speech.hidden, speech.hertz)), dict(_begins(segment, speech)))


def _begins(segment: TextSegment, speech: Speech) -> Iterator[tuple[int, float]]:
    """Of the words of a segment: with the first frame that is heard and speaks their first symbol, or one
    after."""
    reached = np.maximum.accumulate(speech.spoken)
    for place in segment.places:
        if not place.is_pause:
            frame = int(np.searchsorted(reached, place.symbol))
            yield place.start, max(frame - UNHEARD_FRAMES, 0) * HOP / SAMPLE_RATE


def measure(text: str, segment: TextSegment, speech: ServedSpeech) -> Row:
    said = _Said.of(segment)
    to_served = TimeWarp(said.recording, speech.recording)
    true_s = {start: to_served.to_second(begin_s) for start, begin_s in said.begins_s.items()}
    told_s = {word.char_start: word.start_s for word in speech.words if word.kind is Spoken.WORD}
    per_character = speech.recording.seconds / len(text)
    return Row(
        text,
        {
            TOLD: [1e3 * (told_s[start] - true_s[start]) for start in true_s if start in told_s],
            SPREAD: [1e3 * (start * per_character - true_s[start]) for start in true_s],
            WARPED: list(_warping_errors_ms(segment, said)),
        },
    )


def _warping_errors_ms(segment: TextSegment, said: _Said) -> Iterator[float]:
    for speed in _SPEEDS:
        again = _Said.of(segment, speed)
        warp = TimeWarp(said.recording, again.recording)
        for start, begin_s in said.begins_s.items():
            yield 1e3 * (warp.to_second(begin_s) - again.begins_s[start])


def rows(server: str, sentences: Sequence[Sentence], seed: int) -> Iterator[Row]:
    frontend = TextFrontend()
    with Client(server) as client:
        for sentence in sentences:
            (segment,) = frontend.segments(sentence.text)
            speech = join(list(client.speak(sentence.text, voice=sentence.voice, seed=seed)))
            yield measure(sentence.text, segment, speech)


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.word_times", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--server", required=True, help="gRPC address of a running server")
    add("--per-category", type=int, default=PER_CATEGORY, metavar="N",
        help="sentences of each category (default: %(default)s)")  # fmt: skip
    add("--split", default="test", choices=SPLITS[1:])
    add("--seed", type=int, default=1, help="of the choice of sentences and of the server's draws")
    add("--out", type=Path, help="JSON with every sentence")
    options = parser.parse_args()
    environment = Environment.record()
    sentences = held_out_sentences(options.split, options.per_category, VOICES, options.seed)
    measured = list(rows(options.server, sentences, options.seed))
    findings = [Finding.of(way, measured) for way in (TOLD, SPREAD, WARPED)]
    asked = sum(len(row.errors_ms[SPREAD]) for row in measured)
    print(report.table([_cells(finding) for finding in findings]))
    print(f"{len(measured)} sentences of {asked} words, of which {findings[0].words} were told")
    if options.out:
        settings = {"split": options.split, "seed": options.seed}
        report.save(options.out, "word times", environment, settings, [*findings, *measured])


def _cells(finding: Finding) -> dict[str, str]:
    numbers = {name: f"{value:.0f}" for name, value in vars(finding).items() if name != "way"}
    return {"": finding.way, **{name.replace("_", " "): value for name, value in numbers.items()}}


if __name__ == "__main__":
    main()
