"""`python -m perf.perf_analyzer`: NVIDIA's own load generator on `tts`, read for its first response.

The binary comes with the `tritonclient` 2.51.0 wheel. It says that it measures the first response of a
decoupled model and takes the last one; the profile that it exports has the times of all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, Self

from talkahead_client.protocol import STATS, Stats

from instruments import report
from instruments.environment import Environment
from instruments.report import Spread
from instruments.server import add_server_options, served_repository, server_at
from perf.texts import TEXTS

_LIBRARIES = {"libb64.so.0d": "libb64-", "libcudart.so.12": "libcudart-"}
"""What the binary links to beyond a plain system, and how the server's wheel names it."""


@dataclass(frozen=True)
class Profile:
    """One concurrency. Times in milliseconds since each request, one entry per request."""

    concurrency: int
    pairs: dict[str, int]
    """Drafter and verifier that the server reports, and in how many requests."""
    requests: int
    requests_per_s: float
    first_ms: Spread
    last_ms: Spread
    """Of the response with the last audio."""
    first_samples_ms: tuple[float, ...]
    last_samples_ms: tuple[float, ...]

    @classmethod
    def of(cls, experiment: Mapping[str, Any]) -> Self:
        requests = experiment["requests"]
        first, last = (
            tuple(_elapsed_ms(request, position(request)) for request in requests)
            for position in (lambda request: 0, _last_audio)
        )
        ends = [request["response_timestamps"][-1] for request in requests]
        wall_ns = max(ends) - min(request["timestamp"] for request in requests)
        return cls(
            concurrency=int(experiment["experiment"]["value"]),
            pairs=dict(Counter(map(_pair, requests))),
            requests=len(requests),
            requests_per_s=1e9 * len(requests) / wall_ns,
            first_ms=Spread.of(first),
            last_ms=Spread.of(last),
            first_samples_ms=first,
            last_samples_ms=last,
        )

    def row(self) -> dict[str, str]:
        return {
            "streams": str(self.concurrency),
            "requests": str(self.requests),
            "requests/s": f"{self.requests_per_s:.2f}",
            "first response p50": f"{self.first_ms.p50:.1f} ms",
            "first p95": f"{self.first_ms.p95:.1f} ms",
            "last response p50": f"{self.last_ms.p50:.1f} ms",
            "last p95": f"{self.last_ms.p95:.1f} ms",
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    repository = served_repository(options)
    environment = Environment.record(repository)
    with (
        server_at(options.server, options.metrics, options.serve_option, repository) as server,
        tempfile.TemporaryDirectory(prefix="perf-analyzer-") as folder,
    ):
        analyzer = Analyzer(Path(folder), server.grpc, options.voice)
        profiles = [analyzer.run(streams, options.requests * streams) for streams in options.streams]
    print(report.table([profile.row() for profile in profiles]))
    settings = {"requests_per_stream": options.requests, "voice": options.voice}
    drafted = environment.drafting(repository, {pair for profile in profiles for pair in profile.pairs})
    report.save(options.out, "perf_analyzer", drafted, settings, profiles)
    return 0


class Analyzer:
    """The binary with its libraries and its input, in a folder of its own."""

    def __init__(self, folder: Path, server: str, voice: str | None) -> None:
        self._folder = folder
        self._server = server
        self._binary = _binary()
        _link_libraries(folder)
        voiced = {} if voice is None else {"VOICE": [voice]}
        requests = [{"TEXT": [text], **voiced} for text in TEXTS]
        (folder / "requests.json").write_text(json.dumps({"data": requests}), encoding="utf-8")

    def run(self, streams: int, num_requests: int) -> Profile:
        print(f"perf_analyzer: {streams} streams, {num_requests} requests", file=sys.stderr, flush=True)
        exported = self._folder / f"profile-{streams}.json"
        done = subprocess.run(
            self._command(streams, num_requests, exported),
            env={**os.environ, "LD_LIBRARY_PATH": f"{self._folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode or not exported.exists():
            said = f"{done.stdout}{done.stderr}"
            raise SystemExit(f"perf_analyzer failed with status {done.returncode}:\n{said}")
        (experiment,) = json.loads(exported.read_text(encoding="utf-8"))["experiments"]
        # It holds all audio as decimal numbers, and is large.
        exported.unlink()
        return Profile.of(experiment)

    def _command(self, streams: int, num_requests: int, exported: Path) -> list[str]:
        return [
            self._binary, "-m", "tts", "-u", self._server, "-i", "grpc", "--streaming", "--async",
            "--concurrency-range", str(streams), "--request-count", str(num_requests),
            "--input-data", str(self._folder / "requests.json"), "--profile-export-file", str(exported),
        ]  # fmt: skip


def _elapsed_ms(request: Mapping[str, Any], response: int) -> float:
    return float(request["response_timestamps"][response] - request["timestamp"]) / 1e6


def _last_audio(request: Mapping[str, Any]) -> int:
    """Index of the response that says so; an empty one, which carries nothing but the end, may follow it."""
    for index, outputs in enumerate(request["response_outputs"]):
        if outputs.get("IS_LAST") is True:
            return index
    raise SystemExit("perf_analyzer: a stream ended without its last chunk")


def _pair(request: Mapping[str, Any]) -> str:
    return Stats.from_wire(request["response_outputs"][_last_audio(request)][STATS.name]).pair


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.perf_analyzer", description=__doc__)
    add_server_options(parser)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[1, 4, 16], metavar="N")
    add("--requests", type=int, default=20, help="of each stream (%(default)s)")
    add("--voice")
    add("--out", type=Path, default=Path("perf/results/perf_analyzer.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
