"""One of the servers behind the proxy, which can be ended as Kubernetes ends it, and started again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from instruments.namespace import Namespace
from instruments.server import Server, server_at


class Replica:
    """Runs within `with`, at the same addresses each time.

    Args:
        home: where it listens; None: on loopback.
        options: of `talkahead serve`.
    """

    def __init__(self, home: Namespace | None, options: Sequence[str], repository: Path) -> None:
        self.home = home
        self._options = (*options, *(() if home is None else ("--host", home.address)))
        self._repository = repository
        self._running = contextlib.ExitStack()
        self.server = Server("", None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns once it has spoken."""
        ports = [
            f"--{name}-port={address.rpartition(':')[2]}"
            for name in ("grpc", "http", "metrics")
            if (address := getattr(self.server, name))
        ]
        prefix = () if self.home is None else self.home.prefix
        running = server_at(None, None, (*self._options, *ports), self._repository, prefix)
        self.server = self._running.enter_context(running)

    def stop(self) -> None:
        """By SIGTERM: it speaks its streams to their end, and takes no more."""
        self._running.close()

    @property
    def addresses(self) -> tuple[str, str]:
        """Of gRPC and HTTP."""
        assert self.server.http is not None
        return self.server.grpc, self.server.http

    @property
    def launcher(self) -> int:
        assert self.server.launcher is not None
        return self.server.launcher
