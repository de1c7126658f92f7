"""Whether a server has anything left of anybody's stream."""

from __future__ import annotations

from served import Served
from talkahead_client import Client
from waiting import eventually

from perf.vanishing import busy

_GAUGES = ("talkahead_active_streams", "talkahead_queued_streams", "talkahead_open_streams")


def wait_until_idle(client: Client, server: Served | None = None) -> None:
    """No slot taken, no stream open, no window unacknowledged: as the talker reports, and the metrics page of
    a server."""

    def left() -> dict[str, float]:
        gauges = {name: server.metric(name) for name in _GAUGES} if server else {}
        return {**busy(client), **{name: count for name, count in gauges.items() if count}}

    eventually(left, lambda counts: not counts)
