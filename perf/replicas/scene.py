"""Two replicas, the proxy before them, and their listeners."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from talkahead_client import Client

from instruments.namespace import namespace
from instruments.proxy import Kind, Proxy, proxy_before
from perf.replicas.crowd import Crowd
from perf.replicas.replica import Replica

_LOOK_S = 0.05
_LIMIT_S = 240.0


@dataclass(frozen=True)
class Scene:
    """What a measurement happens to."""

    first: Replica
    second: Replica
    proxy: Proxy
    crowd: Crowd

    @property
    def replicas(self) -> tuple[Replica, Replica]:
        return self.first, self.second

    def await_down(self, number: int, since_s: float) -> float:
        """Seconds since then until the proxy sends a replica no more streams; `number` is 0 or 1."""
        return self._await(number, False, since_s)

    def await_up(self, number: int, since_s: float) -> float:
        """Seconds since then until it sends some again."""
        return self._await(number, True, since_s)

    def _await(self, number: int, is_up: bool, since_s: float) -> float:
        while self.proxy.are_up()[number] is not is_up:
            if time.monotonic() > since_s + _LIMIT_S:
                raise SystemExit(
                    f"after {_LIMIT_S:g} s the proxy does not find replica {number + 1} "
                    f"{'well' if is_up else 'sick'}"
                )
            time.sleep(_LOOK_S)
        return time.monotonic() - since_s


@dataclass(frozen=True)
class Cast:
    """How a scene is set.

    Args:
        serve: options of `talkahead serve`.
        are_apart: each replica has a network namespace of its own, which needs root.
        proxy: which one.
        together, seconds, retries: see `Crowd`.
    """

    repository: Path
    serve: Sequence[str]
    are_apart: bool
    proxy: Kind
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
            proxy = stack.enter_context(proxy_before((first.addresses, second.addresses), folder, self.proxy))
            crowd = Crowd(proxy.address, self.together, self.seconds, self.retries)
            yield Scene(first, second, proxy, stack.enter_context(crowd))


def open_streams(replica: Replica) -> int:
    """As it says itself."""
    with Client(replica.server.grpc) as client:
        return int(client.load().details["open_streams"])
