"""The gateway beside the server that it speaks for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from talkahead.launcher.gateway_command import NAME
from talkahead.launcher.server_process import ServeOptions, ending_with_us


class GatewayProcess:
    """A started gateway, which is started again where it listened if it ends by itself.

    Args:
        arguments: of its command.
        restarts: how often that is done.
    """

    def __init__(self, arguments: Sequence[str], restarts: int) -> None:
        self._arguments = tuple(arguments)
        self._restarts_left = restarts
        self._ports: tuple[str, ...] = ()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "talkahead", NAME, *self._arguments, *self._ports]
        return subprocess.Popen(
            ending_with_us(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # A terminal's Ctrl-C reaches the launcher alone, which lets streams finish first.
            start_new_session=True,
        )

    def fileno(self) -> int:
        """Of its output, which can be read when it says something, and when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def read(self) -> str:
        """Its ready line; "" = it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line:
            addresses = dict(zip(line.split()[1::2], line.split()[2::2], strict=True))
            options = {"http": "--port", "riva": "--riva-port"}
            ports = ((options[name], address.rpartition(":")[2]) for name, address in addresses.items())
            self._ports = tuple(word for pair in ports for word in pair)
        return line

    @property
    def was_ready(self) -> bool:
        return bool(self._ports)

    def revive(self) -> bool:
        """Starts it again after its end, unless that was done often enough."""
        if not self._restarts_left:
            return False
        self._restarts_left -= 1
        self._let_go()
        self._process = self._start()
        return True

    def ask_to_stop(self) -> None:
        """The first time, its streams may finish."""
        self._process.send_signal(signal.SIGTERM)

    def ended(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """The exit status of one that has ended its output."""
        return self._process.wait()

    def clean_up(self) -> None:
        """Ends it now, if it runs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._let_go()

    def _let_go(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def gateway_of(options: ServeOptions) -> Iterator[GatewayProcess | None]:
    """The one that was asked for, until the end of the block."""
    if options.gateway is None:
        yield None
        return
    addresses = options.addresses
    own = ("--server", addresses.grpc_from_here, "--host", addresses.host)
    gateway = GatewayProcess((*own, *options.gateway), options.restarts)
    try:
        yield gateway
    finally:
        gateway.clean_up()
