"""What a figure depends on beside the code: machine, versions, weights, command."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from talkahead.cpu_path import cpu_path

ROOT = Path(__file__).parent.parent
REPOSITORY = ROOT / "model_repository"
PACKAGES = ("gguf", "llama-cpp-python", "numpy", "nvidia-pytriton", "torch", "transformers", "tritonclient")

_PROC_STAT = Path("/proc/stat")
_BUSY, _STOLEN = (0, 1, 2, 5, 6), 7
"""Columns of its first line: user, nice, system and interrupts; what the host gave to others."""


@dataclass(frozen=True)
class CpuTime:
    """Of all cores since the machine started, in ticks; zeros where the system does not tell."""

    busy: int = 0
    stolen: int = 0

    @classmethod
    def now(cls) -> Self:
        try:
            line = _PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0]
        except OSError:
            return cls()
        ticks = [int(column) for column in line.split()[1:]]
        return cls(sum(ticks[column] for column in _BUSY), ticks[_STOLEN])

    def stolen_percent(self, until: CpuTime) -> float | None:
        """Of what the machine wanted to compute from this moment on; None where nobody tells."""
        busy, stolen = until.busy - self.busy, until.stolen - self.stolen
        return 100 * stolen / (busy + stolen) if busy + stolen else None


@dataclass(frozen=True)
class Environment:
    """Recorded before a measurement starts."""

    date: str
    command: str
    commit: str
    """With `+changes` where the working tree differs from it."""
    cpu: str
    cpu_path: str
    """Which of its vector units computed (`TALKAHEAD_CPU`)."""
    cores: int
    """That this process may use."""
    load_average: float
    """Of the minute before: what else the machine was doing."""
    python: str
    versions: dict[str, str]
    weights: dict[str, str]
    """Start of the SHA-256 of each weight file that was measured, by its place in the model repository: of
    drafts and groups, of those that were used."""
    began: CpuTime

    @classmethod
    def record(cls, repository: Path | None = REPOSITORY) -> Self:
        """Of a measurement of the models in a repository; None = in one that nobody knows, or of none."""
        return cls(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            command=shlex.join(["python", *sys.orig_argv[1:]]),
            commit=_commit(),
            cpu=_cpu(),
            cpu_path=cpu_path(),
            cores=len(os.sched_getaffinity(0)),
            load_average=os.getloadavg()[0],
            python=platform.python_version(),
            versions=dict(_versions()),
            weights={} if repository is None else _hashes(repository, "*/*/*.safetensors"),
            began=CpuTime.now(),
        )

    def told(self) -> dict[str, Any]:
        """For a report that is written now: with how much of the machine's time its host gave to others."""
        return {
            **{name: value for name, value in asdict(self).items() if name != "began"},
            "stolen_percent": self.began.stolen_percent(CpuTime.now()),
        }

    def drafting(self, repository: Path | None, pairs: Iterable[str]) -> Self:
        """With the weights that pairs of drafter and verifier (`heads+match`) used beside the others."""
        if repository is None:
            return self
        used = dict(self.weights)
        for drafter, verifier in (pair.split("+") for pair in pairs):
            used |= _hashes(repository, f"talker/*/drafts/{drafter}/*.safetensors")
            if verifier == "groups":
                used |= _hashes(repository, "talker/*/groups/*.safetensors")
        return replace(self, weights=used)

    @property
    def machine(self) -> str:
        """For the head of a table."""
        return f"{self.cpu}, {self.cpu_path}, {self.cores} cores"


def _commit() -> str:
    try:
        commit = _git("rev-parse", "HEAD")
        return f"{commit}+changes" if _git("status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, encoding="utf-8", errors="replace"
    )
    return done.stdout.strip()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _hashes(repository: Path, pattern: str) -> dict[str, str]:
    return {
        str(path.relative_to(repository)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted(repository.glob(pattern))
    }
