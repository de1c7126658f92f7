"""perf_analyzer itself, which comes with the `tritonclient` 2.51.0 wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from perf.perf_analyzer.inputs import PATIENT, Entry
from perf.perf_analyzer.profile import Profile

TTS, FRONTEND = "tts", "frontend"
_DECOUPLED = (TTS, FRONTEND)
_LIBRARIES = {"libb64.so.0d": "libb64-", "libcudart.so.12": "libcudart-"}
"""What the binary links to beyond a plain system, and how the server's wheel names it."""


_TRIES = 3
"""Now and then it exports half a file, or an empty one, and says that all is well."""


@dataclass(frozen=True)
class Offer:
    """A load: so many streams at once, or so many requests a second at random times."""

    streams: int | None = None
    rate: float | None = None
    requests: int = 1

    @property
    def name(self) -> str:
        return f"{self.streams} streams" if self.rate is None else f"{self.rate:g} requests/s"

    @property
    def arguments(self) -> list[str]:
        if self.rate is None:
            return ["--concurrency-range", str(self.streams)]
        return ["--request-rate-range", f"{self.rate:g}", "--request-distribution", "poisson"]


class Analyzer:
    """The binary with its libraries and its input, in a folder of its own."""

    def __init__(self, folder: Path, server: str) -> None:
        self._folder, self._server = folder, server
        self._binary = _binary()
        _link_libraries(folder)

    def run(self, model: str, offer: Offer, entries: Sequence[Entry]) -> Profile:
        note = f"perf_analyzer: {model}, {offer.name}, {offer.requests} requests"
        print(note, file=sys.stderr, flush=True)
        asked = self._folder / "requests.json"
        asked.write_text(json.dumps({"data": list(entries)}), encoding="utf-8")
        for _ in range(_TRIES):
            written = self._export(self._command(model, offer, asked, self._exported))
            try:
                (experiment,) = json.loads(written)["experiments"]
            except json.JSONDecodeError as error:
                print(f"perf_analyzer's profile is cut short ({error}); again", file=sys.stderr, flush=True)
            else:
                return Profile.of(model, experiment)
        raise SystemExit(f"perf_analyzer's profile was cut short {_TRIES} times")

    @property
    def _exported(self) -> Path:
        return self._folder / "profile.json"

    def _export(self, command: Sequence[str]) -> str:
        """What it writes, which has all audio as decimal numbers, and is large; it does not stay."""
        done = subprocess.run(
            command,
            env={**os.environ, "LD_LIBRARY_PATH": f"{self._folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode or not self._exported.exists():
            said = f"{done.stdout}{done.stderr}"
            raise SystemExit(f"perf_analyzer failed with status {done.returncode}:\n{said}")
        written = self._exported.read_text(encoding="utf-8")
        self._exported.unlink()
        return written

    def _command(self, model: str, offer: Offer, asked: Path, exported: Path) -> list[str]:
        parameters = PATIENT if model == FRONTEND else {}
        return [
            self._binary, "-m", model, "-u", self._server, "-i", "grpc", "--async",
            *(["--streaming"] if model in _DECOUPLED else []), *offer.arguments,
            *(f"--request-parameter={name}:{value}:int" for name, value in parameters.items()),
            "--request-count", str(offer.requests), "--input-data", str(asked),
            "--profile-export-file", str(exported),
        ]  # fmt: skip


def _binary() -> str:
    path = shutil.which("perf_analyzer", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if path is None:
        raise SystemExit("perf_analyzer is missing: pip install tritonclient==2.51.0 (later wheels lack it)")
    return path


def _link_libraries(folder: Path) -> None:
    """Gives the libraries in the server's wheel the names that the binary asks for."""
    try:
        carried = files("nvidia-pytriton") or []
    except PackageNotFoundError:
        return  # then the system has to have them
    for name, prefix in _LIBRARIES.items():
        for file in carried:
            if file.name.startswith(prefix):
                (folder / name).symlink_to(file.locate())
