"""Whether a server has anything left of anybody's stream."""

from __future__ import annotations

from collections.abc import Mapping

from served import Served
from talkahead_client import Client
from waiting import eventually

_COUNTS = ("active", "queued", "open_streams", "windows_in_flight", "slots_taken")
_GAUGES = ("talkahead_active_streams", "talkahead_queued_streams", "talkahead_open_streams")


def busy(client: Client) -> dict[str, int]:
    """What the talker counts that is not none: streams, windows without an answer, slots."""
    details: Mapping[str, int] = client.load().details
    return {name: details[name] for name in _COUNTS if details[name]}


def wait_until_idle(client: Client, server: Served | None = None) -> None:
    """No slot taken, no stream open, no window unacknowledged: as the talker reports, and the metrics page of
    a server."""

    def left() -> dict[str, float]:
        gauges = {name: server.metric(name) for name in _GAUGES} if server else {}
        return {**busy(client), **{name: count for name, count in gauges.items() if count}}

    eventually(left, lambda counts: not counts)
