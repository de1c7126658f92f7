"""`talkahead accept FOLDER...`: whether a downloaded checkpoint is served as it should be, in one command.

FOLDER are the downloads in any order: a talker's and its codec's (and, of Llasa+, its one file and the Llasa
that it was tuned from). They are imported; the likeliest tokens after one prompt are compared with those of
transformers; a server says sentences, which a recogniser hears where one is installed; and several streams
speak at once. What was found goes into one JSON, with a paragraph to paste into an issue; the sentences lie
beside it as WAV files, for ears.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from talkahead.errors import TalkaheadError
from talkahead.families.registry import load_family
from talkahead.manifest import Manifest

from instruments.environment import CpuTime, Environment
from perf.acceptance.downloads import Downloads
from perf.acceptance.greedy import GreedyFinding, compare
from perf.acceptance.speaking import Sentences, Streams, listen
from perf.arguments import at_least

_NAME = "accept.json"
_VOICE = "accepted"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Acceptance:
    """What was found of a checkpoint; None of what could not be tried, of which `problems` tells."""

    environment: Environment
    device: str
    family: str
    folders: tuple[str, ...]
    licence: str
    import_s: float
    greedy: GreedyFinding | None
    sentences: Sentences | None
    streams: tuple[Streams, ...]
    problems: tuple[str, ...]

    @property
    def is_accepted(self) -> bool:
        """Nothing failed, and no token differs but by rounding."""
        return not self.problems and (self.greedy is None or self.greedy.is_excused)

    @property
    def paragraph(self) -> str:
        made = self.environment
        versions = ", ".join(
            f"{name} {made.versions[name]}" for name in ("torch", "transformers") if name in made.versions
        )
        parts = [
            f"`talkahead accept`: {self.family} of {' and '.join(self.folders)}, at {made.commit[:12]} on "
            f"{made.machine}, device {self.device} ({versions}).",
            f"Imported in {self.import_s:.0f} s.",
            self.greedy.sentence if self.greedy else "",
            self.sentences.sentence if self.sentences else "",
            f"{'; '.join(one.phrase for one in self.streams)}." if self.streams else "",
            *(f"FAILED: {problem}" for problem in self.problems),
        ]
        return " ".join(filter(None, parts))


class Trial:
    """Goes on where a step fails, and keeps what it failed with."""

    def __init__(self, options: argparse.Namespace, downloads: Downloads) -> None:
        self._options, self._downloads = options, downloads
        self._out: Path = options.out.resolve()
        self._repository = self._out / "repository"
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._problems: list[str] = []
        self._began = CpuTime.now()

    def run(self) -> Acceptance:
        """Raises TalkaheadError where nothing can be tried, as the folders cannot be imported."""
        options = self._options
        began = time.monotonic()
        self._import()
        import_s = time.monotonic() - began
        self._add_voice()
        greedy = self._tried("greedy tokens", self._compare)
        heard = self._tried(
            "speaking",
            lambda: listen(
                self._repository,
                self._out,
                sentences=options.sentences,
                streams=options.streams,
                max_seconds=options.max_seconds,
                voice=_VOICE if options.recording else None,
            ),
        )
        talker = Manifest.read(self._repository / "talker" / "1")
        folders = (self._downloads.talker, self._downloads.codec)
        return Acceptance(
            environment=replace(Environment.record(self._repository), began=self._began),
            device=self._device if self._device == "cpu" else torch.cuda.get_device_name(),
            family=self._downloads.family,
            folders=tuple(folder.resolve().name for folder in folders),
            licence=talker.licence,
            import_s=import_s,
            greedy=greedy,
            sentences=heard[0] if heard else None,
            streams=heard[1] if heard else (),
            problems=tuple(self._problems),
        )

    def _import(self) -> None:
        given = self._downloads
        _run(
            *("build_engines", "import-checkpoint", given.family, given.talker, "--codec", given.codec),
            *("--out", self._repository),
            *(("--base", given.base) if given.base else ()),
            *self._options.import_option,
        )

    def _add_voice(self) -> None:
        """The recording that was given, for a family without a voice of its own; refuses one without any."""
        options, family = self._options, load_family(self._downloads.family)
        if options.recording:
            where = "--repository", self._repository
            _run("talkahead", "voices", "add", _VOICE, options.recording, "--text", options.text, *where)
        elif not family.voices(self._repository / "encoder" / "1"):
            raise TalkaheadError(
                f"{self._downloads.family} has no voice of its own: give one with --recording FILE --text "
                "TEXT, or lay voices/NAME.json into the talker's folder"
            )

    def _compare(self) -> GreedyFinding:
        return compare(self._downloads, self._repository, self._options.tokens, self._device)

    def _tried(self, what: str, step: Callable[[], Found]) -> Found | None:
        print(f"accept: {what}", file=sys.stderr, flush=True)
        try:
            return step()
        except Exception as error:
            self._problems.append(f"{what}: {type(error).__name__}: {error}")
            return None


def _run(*command: object) -> None:
    """A module of ours, as users run it; raises TalkaheadError with what it said where it fails."""
    print(f"accept: {' '.join(map(str, command[:3]))}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
    )
    if done.returncode:
        raise TalkaheadError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if (options.recording is None) != (options.text is None):
        print("accept: --recording and --text go together", file=sys.stderr)
        return 2
    try:
        downloads = Downloads.of(options.folders)
        options.out.mkdir(parents=True)
        accepted = Trial(options, downloads).run()
    except FileExistsError:
        there = f"--out: {options.out} is there already; allowed: a folder that is not"
        print(f"accept: {there}", file=sys.stderr)
        return 1
    except TalkaheadError as error:
        print(f"accept: {error}", file=sys.stderr)
        return 1
    written = {
        **{"paragraph": accepted.paragraph, "accepted": accepted.is_accepted, **asdict(accepted)},
        "environment": accepted.environment.told(),
    }
    (options.out / _NAME).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    print(f"\n{accepted.paragraph}\n\n(all of it in {options.out / _NAME})")
    return 0 if accepted.is_accepted else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="talkahead accept",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("folders", nargs="+", type=Path, metavar="FOLDER", help="as they were downloaded")
    add("--out", type=Path, default=Path("accepted"), help="a folder that is not there yet (%(default)s)")
    add("--recording", type=Path, metavar="FILE", help="a WAV file to speak like")
    add("--text", help="what is said in it")
    add("--tokens", type=at_least(2), default=200, help="to compare with transformers' (%(default)s)")
    add("--sentences", type=at_least(1), default=20, help="to say (%(default)s)")
    add("--streams", type=at_least(1), nargs="*", default=[1, 4], help="at once, by turns (1 4)")
    add("--max-seconds", type=float, default=20.0, help="of a sentence (%(default)g)")
    add(
        "--import-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="for import-checkpoint, as in --import-option=--phonemes=espeak",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
