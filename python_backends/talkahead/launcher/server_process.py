"""One run of tritonserver: its command, its children, and what it leaves behind."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from talkahead.config import SOCKET_DIR, THREADS_PREFIX
from talkahead.cpu_path import torch_environment
from talkahead.launcher.addresses import Addresses
from talkahead.launcher.installation import prepare
from talkahead.launcher.log_line import LogLevel
from talkahead.launcher.model_control import ModelControl
from talkahead.launcher.plain_names import PlainNames, plain_folder
from talkahead.launcher.tls import Tls
from talkahead.launcher.traces import Traces
from talkahead.transport.rendezvous import draining_flag, leaving_flag

_SHARED_MEMORY = Path("/dev/shm")
_CLOSED_APIS = "shared-memory,trace,logging"
"""Of Triton's: a client could read the memory of other processes, and turn traces and the log on and off.
Nobody is told the keys to them, which are drawn at each start."""
_DOORS = ("http-restricted-api", "grpc-restricted-protocol")


@dataclass(frozen=True)
class ServeOptions:
    """What `talkahead serve` was asked for."""

    repository: Path
    addresses: Addresses
    config_name: str | None = None
    tls: Tls | None = None
    """None: plain text."""
    model_control: ModelControl | None = None
    """None: closed."""
    traces: Traces | None = None
    log_level: LogLevel = LogLevel.WARNING
    threads: Mapping[str, int] = field(default_factory=dict)
    start_timeout_s: float = 300.0
    drain_delay_s: float = 0.0
    drain_timeout_s: float = 30.0
    exit_timeout_s: int = 10
    restarts: int = 3
    check_interval_s: float = 60.0
    binary: Path | None = None
    gateway: tuple[str, ...] | None = None
    """Arguments of the gateway's command, beside the address of the server; None: there is no gateway."""

    @property
    def models(self) -> list[str]:
        return sorted(path.parent.name for path in self.repository.glob("*/config.pbtxt"))

    @property
    def config_names(self) -> list[str]:
        """What configurations of models are called, but for the usual ones."""
        return sorted({path.stem for path in self.repository.glob("*/configs/*.pbtxt")})


class ServerProcess:
    """A started server, with the folders that live as long as it does."""

    def __init__(self, options: ServeOptions) -> None:
        self._runtime = plain_folder("talkahead-runtime-")
        self.names = PlainNames(self._runtime)
        # Apart from the runtime folder, whose longer name a socket's path would not have room for.
        self._socket_dir = plain_folder("talkahead-")
        try:
            self._process = self._start(options)
        except BaseException:
            self._remove_folders()
            raise
        self.log_pipe = self._process.stdout
        assert self.log_pipe is not None
        os.set_blocking(self.log_pipe.fileno(), False)

    def _start(self, options: ServeOptions) -> subprocess.Popen[bytes]:
        installation = prepare(self.names, options.binary)
        threads = {THREADS_PREFIX + model.upper(): str(count) for model, count in options.threads.items()}
        return subprocess.Popen(
            ending_with_us(
                [str(installation.binary), *_arguments(options, installation.backends, self.names)]
            ),
            env={
                **installation.environment,
                **torch_environment(),
                **threads,
                SOCKET_DIR: str(self._socket_dir),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A terminal's Ctrl-C reaches the launcher alone, which drains first.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def refuse_health_checks(self) -> None:
        """Proxies send no more streams; those that come all the same are spoken."""
        leaving_flag(self._socket_dir).touch()

    def refuse_new_streams(self) -> None:
        """The frontend answers from now on that the server is going away."""
        draining_flag(self._socket_dir).touch()

    def ask_to_stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def ended(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.poll()

    def clean_up(self) -> None:
        """Ends what still runs of the server and its models, and removes what they left."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self.log_pipe is not None:
            self.log_pipe.close()
        self._remove_folders()  # which may lie among the regions
        for region in _SHARED_MEMORY.glob(f"{self._runtime.name}*"):
            region.unlink(missing_ok=True)

    def _remove_folders(self) -> None:
        for folder in (self._socket_dir, self._runtime):
            shutil.rmtree(folder, ignore_errors=True)


def ending_with_us(command: list[str]) -> list[str]:
    """A command that ends with this launcher, however that ends, where the system has the means."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--", *command] if setpriv else command


def _arguments(options: ServeOptions, backends: Path | None, names: PlainNames) -> list[str]:
    addresses = options.addresses
    flags = {
        "model-repository": names.of(options.repository, "models"),
        "grpc-address": addresses.host,
        "grpc-port": addresses.grpc,
        "http-address": addresses.http_host,
        "http-port": addresses.http,
        "metrics-address": addresses.host,
        "metrics-port": addresses.metrics,
        "exit-timeout-secs": options.exit_timeout_s,
        "model-load-thread-count": len(options.models),
        # Shared memory of a server that was killed can be told from another's.
        "backend-config": f"python,shm-region-prefix-name={names.folder.name}",
        "allow-gpu-metrics": str(_has_gpu()).lower(),
        "log-verbose": 1 if options.log_level is LogLevel.DEBUG else 0,
    }
    if backends is not None:
        flags["backend-directory"] = backends
    if options.config_name is not None:
        flags["model-config-name"] = options.config_name
    if options.tls is not None:
        flags |= options.tls.server_flags
    if options.model_control is not None:
        flags |= options.model_control.server_flags
    # The configurations are complete: guessing them would start every Python model twice.
    given = ["--disable-auto-complete-config", *(f"--{name}={value}" for name, value in flags.items())]
    locks = [f"{_CLOSED_APIS}:{secrets.token_hex(8)}={secrets.token_hex()}" for _ in _DOORS]
    if options.traces is not None:
        given += options.traces.server_flags
    return [*given, *(f"--{door}={lock}" for door, lock in zip(_DOORS, locks, strict=True))]


def _has_gpu() -> bool:
    return any(Path("/dev").glob("nvidia[0-9]*"))
