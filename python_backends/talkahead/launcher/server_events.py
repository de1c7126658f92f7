"""What happens to a running server, from one place: its log, its end, its models' ends, signals to us."""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from talkahead.launcher.gateway_process import GatewayProcess
from talkahead.launcher.health_check import HealthCheck
from talkahead.launcher.process_watch import ModelProcess, model_processes
from talkahead.launcher.server_log import ServerLog
from talkahead.launcher.server_process import ServerProcess

_READ_BYTES = 65_536


class StopSignals:
    """Counts SIGTERM and SIGINT, and wakes a selector for each."""

    def __init__(self) -> None:
        self.count = 0
        self.reader, self._writer = socket.socketpair()
        for end in (self.reader, self._writer):
            end.setblocking(False)

    @contextmanager
    def caught(self) -> Iterator[None]:
        previous = {number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)}
        previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous_fd)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


@dataclass(frozen=True)
class ModelEnded:
    """A Python model's process is gone; its exit status, where that could be had."""

    process: ModelProcess
    status: int | None

    @property
    def death(self) -> str:
        """A sentence that says so."""
        return self.process.death(self.status)


@dataclass(frozen=True)
class Spoken:
    """A syllable that was asked for is over; `failure` is why it was not spoken, or empty."""

    failure: str


@dataclass(frozen=True)
class GatewayReady:
    """The gateway answers, as its line says."""

    line: str


@dataclass(frozen=True)
class GatewayEnded:
    """The gateway's process is gone."""

    status: int


ServerEvent = ModelEnded | Spoken | GatewayReady | GatewayEnded


class ServerEvents:
    """A selector over one server's descriptors; used by one thread."""

    def __init__(
        self, server: ServerProcess, log: ServerLog, signals: StopSignals, check: HealthCheck
    ) -> None:
        self._server, self._log, self._signals, self._check = server, log, signals, check
        self._unread = b""
        self._models: dict[int, ModelProcess] = {}
        self._ended: set[int] = set()
        """Processes whose end was told, and which the server has not asked for."""
        self._selector = selectors.DefaultSelector()
        for end in (signals.reader, check.results):
            self._selector.register(end, selectors.EVENT_READ)
        assert server.log_pipe is not None
        self._log_fd = server.log_pipe.fileno()
        self._selector.register(self._log_fd, selectors.EVENT_READ)
        self._server_handle = os.pidfd_open(server.pid)
        self._selector.register(self._server_handle, selectors.EVENT_READ)

    def wait(self, timeout_s: float | None) -> list[ServerEvent]:
        """Blocks until something happened; relays the log; returns the rest."""
        happened: list[ServerEvent] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._signals.reader:
                self._signals.reader.recv(_READ_BYTES)
            elif key.fd == self._log_fd:
                self._read_log()
            elif key.fileobj is self._check.results:
                happened.append(Spoken(self._check.result()))
            elif isinstance(key.data, ModelProcess):
                happened.append(ModelEnded(key.data, key.data.exit_status()))
                self._ended.add(key.data.pid)
                self._forget(key.data)
            elif isinstance(key.data, GatewayProcess):
                happened.append(self._hear(key.data))
        return happened

    def watch_gateway(self, gateway: GatewayProcess) -> None:
        """Until its end, which is told."""
        self._selector.register(gateway.fileno(), selectors.EVENT_READ, gateway)

    def _hear(self, gateway: GatewayProcess) -> GatewayReady | GatewayEnded:
        if line := gateway.read():
            return GatewayReady(line)
        self._selector.unregister(gateway.fileno())
        return GatewayEnded(gateway.wait())

    def watch_models(self, *, also_ended: bool = False) -> None:
        """Adds the model processes that started since the last call; `also_ended`: and those that ended."""
        found = dict(model_processes(self._server.pid, also_ended=also_ended))
        self._ended &= found.keys()
        for pid, model in found.items():
            if pid in self._ended or pid in self._models:
                continue
            if (process := ModelProcess.open(pid, model)) is None:
                continue
            self._models[pid] = process
            self._selector.register(process.handle, selectors.EVENT_READ, process)

    @property
    def models(self) -> set[str]:
        """Models with a living process."""
        return {process.model for process in self._models.values()}

    @property
    def is_a_model_dying(self) -> bool:
        """Its end is still to be told."""
        return any(process.is_dying for process in self._models.values())

    def close(self) -> None:
        self._read_log()
        for process in list(self._models.values()):
            self._forget(process)
        self._selector.close()
        os.close(self._server_handle)

    def _forget(self, process: ModelProcess) -> None:
        self._selector.unregister(process.handle)
        process.close()
        del self._models[process.pid]

    def _read_log(self) -> None:
        while chunk := self._read_chunk():
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for line in lines:
                self._log.read(self._server.names.undone(line.decode(errors="replace")))

    def _read_chunk(self) -> bytes:
        try:
            return os.read(self._log_fd, _READ_BYTES)
        except BlockingIOError:
            return b""
