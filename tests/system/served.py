"""A real `talkahead serve` under test: its addresses, its log, its processes and its exit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from running_command import EXIT_LIMIT_S, RunningCommand
from talkahead.config import SOCKET_DIR
from talkahead.launcher.process_watch import model_processes

from perf.memory import resident_bytes

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = ROOT / "model_repository"
START_LIMIT_S = 120.0


class Served(RunningCommand):
    """The command, started at once; `with` stops it at the end, however the test went.

    It speaks no syllables of its own accord, which would be counted among those of a test.

    Args:
        options: of the command.
        python: that runs it.
        environment: on top of this process's.
    """

    def __init__(
        self,
        *options: str | int | Path,
        python: str | Path = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        serve = [python, "-m", "talkahead", "serve", "--check-interval", "0"]
        command = [*map(str, serve), *map(str, options)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        super().__init__(process)
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._open_pipes = 2
        self._readers = [self._read(pipe) for pipe in (process.stdout, process.stderr)]

    # What it says

    @property
    def log(self) -> str:
        """Both outputs so far."""
        with self._changed:
            return "\n".join(self._lines)

    def wait_for(self, pattern: str, *, count: int = 1, limit_s: float = START_LIMIT_S) -> re.Match[str]:
        """The match of the `count`-th line in which a pattern is found, as soon as that line is there."""

        def found() -> bool:
            return len(self._matches(pattern)) >= count

        with self._changed:
            self._changed.wait_for(lambda: found() or not self._open_pipes, limit_s)
            matches = self._matches(pattern)
        assert len(matches) >= count, f"{count} x {pattern!r} is not in the log:\n{self.log}"
        return matches[count - 1]

    def wait_until_ready(self, *, count: int = 1) -> Self:
        """Until the ready line has come `count` times: once, and once more after each restart."""
        self.wait_for(r"^ready ", count=count)
        return self

    def _matches(self, pattern: str) -> list[re.Match[str]]:
        return [match for line in self._lines if (match := re.search(pattern, line))]

    # Where it listens

    @property
    def grpc(self) -> str:
        return self._address("grpc")

    @property
    def http(self) -> str:
        return self._address("http")

    @property
    def metrics(self) -> str:
        return self._address("metrics")

    def metrics_page(self) -> str:
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as page:
            text: str = page.read().decode()
        return text

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the labels that are not asked for."""
        asked = "".join(rf'(?=[^}}]*\b{label}="{re.escape(value)}")' for label, value in labels.items())
        told = rf"{{{asked}[^}}]*}}"
        own = told if labels else f"(?:{told})?"
        found = re.findall(rf"^{re.escape(name)}{own} (\S+)", self.metrics_page(), re.MULTILINE)
        return sum(map(float, found))

    def _address(self, service: str) -> str:
        return self.wait_for(rf"^ready .*\b{service} (\S+)")[1]

    # Its processes

    @property
    def server_pid(self) -> int:
        """The process id of tritonserver, the launcher's only child."""
        children = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat")
                    if _parent(path) == self.process.pid]  # fmt: skip
        assert len(children) == 1, f"the launcher has the children {children}"
        return children[0]

    @property
    def socket_dir(self) -> Path:
        """Where its models meet, as their environment says."""
        environment = Path(f"/proc/{self.server_pid}/environ").read_bytes().decode().split("\0")
        [folder] = [entry.partition("=")[2] for entry in environment if entry.startswith(f"{SOCKET_DIR}=")]
        return Path(folder)

    def model_pids(self) -> dict[str, int]:
        """Process ids of the Python models."""
        return {model: pid for pid, model in model_processes(self.server_pid)}

    def kill_model(self, model: str) -> None:
        os.kill(self.model_pids()[model], signal.SIGKILL)

    @contextmanager
    def paused(self, model: str) -> Iterator[None]:
        """A model that does nothing for a while."""
        pid = self.model_pids()[model]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def resident_bytes(self) -> dict[str, int]:
        """Resident memory of the server and its models."""
        return resident_bytes(self.process.pid)

    # Its end

    def exit_status(self, limit_s: float = EXIT_LIMIT_S) -> int:
        """Waits for the end of the command and of its outputs."""
        status = super().exit_status(limit_s)
        self.let_go()
        return status

    def let_go(self) -> None:
        for reader in self._readers:
            reader.join(EXIT_LIMIT_S)

    def _read(self, pipe: IO[str] | None) -> threading.Thread:
        assert pipe is not None
        thread = threading.Thread(target=self._collect, args=(pipe,), name="served-log", daemon=True)
        thread.start()
        return thread

    def _collect(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._note(lambda line=line: self._lines.append(line.rstrip("\n")))  # type: ignore[misc]
        self._note(self._count_closed)

    def _count_closed(self) -> None:
        self._open_pipes -= 1

    def _note(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()


def served(*options: str | int | Path) -> Served:
    """A server that is ready."""
    server = Served(*options)
    try:
        return server.wait_until_ready()
    except BaseException:
        server.__exit__(None, None, None)
        raise


def _parent(stat: Path) -> int | None:
    try:
        # After the name in parentheses, which may hold anything: state, parent.
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
