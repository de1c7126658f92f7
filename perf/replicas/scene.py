"""Two replicas, the proxy before them, and their listeners."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from talkahead_client import Client

from instruments.namespace import namespace
from instruments.proxy import Proxy, proxy_before
from perf.replicas.crowd import Crowd
from perf.replicas.replica import Replica

_LOOK_S = 0.05
_RETURN_LIMIT_S = 240.0
_OUTAGE = re.compile(r"^Server replicas/\w+ is DOWN, .*", re.MULTILINE)


@dataclass(frozen=True)
class Scene:
    """What a measurement happens to."""

    first: Replica
    second: Replica
    proxy: Proxy
    log: Path
    """The proxy's."""
    crowd: Crowd

    def await_change(self, what: str, since_s: float, count: int = 1) -> float:
        """Seconds since then until the proxy has said of its replicas so many times that one is UP or DOWN.

        Args:
            what: as in "first is UP".
        """
        line = f"Server replicas/{what}"
        while self.log.read_text(encoding="utf-8").count(line) < count:
            if time.monotonic() > since_s + _RETURN_LIMIT_S:
                raise SystemExit(f"after {_RETURN_LIMIT_S:g} s {line!r} is not in the proxy's log")
            time.sleep(_LOOK_S)
        return time.monotonic() - since_s

    @property
    def outages(self) -> list[str]:
        """The proxy's words where it took a replica for sick or dead."""
        return _OUTAGE.findall(self.log.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Cast:
    """How a scene is set.

    Args:
        serve: options of `talkahead serve`.
        are_apart: each replica has a network namespace of its own, which needs root.
        together, seconds, retries: see `Crowd`.
    """

    repository: Path
    serve: Sequence[str]
    are_apart: bool
    together: int
    seconds: float
    retries: int

    @contextlib.contextmanager
    def scene(self) -> Iterator[Scene]:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            homes = [stack.enter_context(namespace(one)) if self.are_apart else None for one in (1, 2)]
            first, second = (
                stack.enter_context(Replica(home, self.serve, self.repository)) for home in homes
            )
            log = folder / "haproxy.log"
            proxy = stack.enter_context(proxy_before((first.addresses, second.addresses), log))
            crowd = Crowd(proxy.address, self.together, self.seconds, self.retries)
            yield Scene(first, second, proxy, log, stack.enter_context(crowd))


def open_streams(replica: Replica) -> int:
    """As it says itself."""
    with Client(replica.server.grpc) as client:
        return int(client.load().details["open_streams"])
