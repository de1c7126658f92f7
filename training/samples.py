"""`make samples`: a page to hear and see the voice, beside its teacher and the codec's copy of the teacher.

Starts a server, speaks 20 held-out sentences of all categories and a paragraph in its first voice, and one
sentence in the others and at other speeds, stops it, and prints the page's path. Everything lies in one
folder with relative links.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import jinja2
import numpy as np
from talkahead_client import Client

from instruments.environment import Environment
from instruments.material import held_out_sentences, paragraphs
from instruments.measures.ear import Ear
from instruments.measures.word_errors import WordErrors
from instruments.recording import Recording
from instruments.server import add_server_options, served_repository, server_at
from training.originals import Originals
from training.pictures import draw
from training.served_speech import Request, speak_all

NUM_SENTENCES = 20
_PER_CATEGORY = 4
_TEMPLATE = "samples.html"
_LONG = "a paragraph"
_MANNERS = "other voices and speeds"
_SPEEDS = (0.8, 1.25)
_WIDTH, _LONG_WIDTH = 4.8, 15.0
"""Of pictures, in inches."""


@dataclass(frozen=True)
class Line:
    """A text and who speaks it; `parts` are words and the seconds of silence after them."""

    text: str
    parts: tuple[tuple[str, float], ...]
    voice: str
    category: str

    @property
    def words(self) -> str:
        return " ".join(words for words, _ in self.parts)


@dataclass(frozen=True)
class Take:
    """One speaker's version of a line; `name` is its file's, without the ending."""

    speaker: str
    name: str
    seconds: float
    errors: WordErrors


@dataclass(frozen=True)
class Sample:
    """A line and its takes: teacher, codec, server; or of the server alone, in several manners."""

    text: str
    voice: str
    is_long: bool
    takes: tuple[Take, ...]


@dataclass(frozen=True)
class Total:
    """One speaker over the whole page."""

    speaker: str
    edits: int
    words: int
    seconds: float


def lines(voices: Sequence[str], seed: int) -> list[Line]:
    """The sentences, one category after the other, and the paragraph."""
    sentences = held_out_sentences("test", _PER_CATEGORY, voices, seed)
    in_turn = sorted(sentences, key=lambda one: sentences.index(one) % _PER_CATEGORY)[:NUM_SENTENCES]
    (read,) = paragraphs(sentences, 1, voices)
    return [
        *(
            Line(one.text, ((one.words, 0.0),), one.voice, one.category)
            for one in sentences
            if one in in_turn
        ),
        Line(read.text, tuple((part.words, part.pause_s) for part in read.segments), read.voice, _LONG),
    ]


class Gallery:
    """Records and draws each line's takes into a folder."""

    def __init__(self, folder: Path, ear: Ear, originals: Originals) -> None:
        self._folder = folder
        self._ear = ear
        self._originals = originals
        folder.mkdir(parents=True, exist_ok=True)

    def sample(self, line: Line, number: int, served: Recording) -> Sample:
        said = [(self._originals.say(words), pause_s) for words, pause_s in line.parts]
        recordings = {
            "teacher": _joined([(one.teacher, pause_s) for one, pause_s in said]),
            "codec": _joined([(one.copy, pause_s) for one, pause_s in said]),
            "server": served,
        }
        is_long = line.category == _LONG
        return Sample(line.text, line.voice, is_long, self._takes(line, number, recordings, is_long))

    def manners(self, line: Line, number: int, recordings: Mapping[str, Recording]) -> Sample:
        return Sample(line.text, _MANNERS, False, self._takes(line, number, recordings, is_long=False))

    def _takes(
        self, line: Line, number: int, recordings: Mapping[str, Recording], is_long: bool
    ) -> tuple[Take, ...]:
        longest_s = max(recording.seconds for recording in recordings.values())
        takes = []
        for place, (speaker, recording) in enumerate(recordings.items(), 1):
            name = f"{number:02d}-{place}"
            recording.write(self._folder / f"{name}.wav")
            draw(recording, longest_s, self._folder / f"{name}.png", _LONG_WIDTH if is_long else _WIDTH)
            errors = WordErrors.between(line.words, self._ear.hear(recording))
            takes.append(Take(speaker, name, recording.seconds, errors))
        return tuple(takes)


def _joined(parts: Sequence[tuple[Recording, float]]) -> Recording:
    """Recordings of one rate, each with so many seconds of silence after it."""
    rate_hz = parts[0][0].rate_hz
    silent = [(one.samples, np.zeros(round(pause_s * rate_hz), np.float32)) for one, pause_s in parts]
    return Recording(np.concatenate([*chain.from_iterable(silent)]), rate_hz)


def totals(samples: Sequence[Sample]) -> Iterator[Total]:
    for takes in zip(*(sample.takes for sample in samples), strict=True):
        yield Total(
            takes[0].speaker,
            sum(take.errors.edits for take in takes),
            sum(take.errors.words for take in takes),
            sum(take.seconds for take in takes),
        )


def page(groups: Mapping[str, Sequence[Sample]], seed: int, manners: Sequence[Sample] = ()) -> str:
    """The page, whose links lead to files beside it; `manners` come last and count for nothing."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    template = jinja2.Environment(loader=loader, autoescape=True).get_template(_TEMPLATE)
    everything = list(chain.from_iterable(groups.values()))
    return template.render(
        groups={**groups, _MANNERS: manners} if manners else groups,
        totals=list(totals(everything)),
        seed=seed,
        environment=Environment.record(),
    )


def manners_of(text: str, voices: Sequence[str]) -> dict[str, Request]:
    """A text in every other voice, and by the first one at other speeds."""
    first, *others = voices
    slower_and_faster = {
        f"{first}, {speed:g} times as fast": Request(text, first, speed=speed) for speed in _SPEEDS
    }
    return {**{voice: Request(text, voice) for voice in others}, **slower_and_faster}


def make(options: argparse.Namespace) -> Path:
    """Writes the page and what it shows; returns its path."""
    repository = served_repository(options)
    with server_at(options.server, options.metrics, options.serve_option, repository) as server:
        with Client(server.grpc) as client:
            voices = client.voices()
        chosen = lines(voices[:1], options.seed)
        manners = manners_of(chosen[-2].text, voices)
        requests = [*(Request(line.text, line.voice) for line in chosen), *manners.values()]
        served = [speech.recording for speech in speak_all(server.grpc, requests, 1, options.seed)]
    gallery = Gallery(options.folder, Ear(), Originals.load(options.codec))
    groups: dict[str, list[Sample]] = {}
    for number, (line, recording) in enumerate(zip(chosen, served, strict=False), 1):
        groups.setdefault(line.category, []).append(gallery.sample(line, number, recording))
        print(f"samples: {number} of {len(chosen)}", flush=True)
    path: Path = options.folder / "index.html"
    others = dict(zip(manners, served[len(chosen) :], strict=True))
    last = gallery.manners(chosen[-2], len(chosen) + 1, others)
    path.write_text(page(groups, options.seed, [last]), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.samples", description=(__doc__ or "").split("\n")[0])
    add_server_options(parser)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/samples"), help="where the page is written"
    )
    parser.add_argument("--codec", type=Path, default=Path("training/checkpoints"),
        help="what the codec's training wrote, or is kept of it (%(default)s)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1)
    print(f"samples: {make(parser.parse_args()).resolve()}")


if __name__ == "__main__":
    main()
