"""What the engine tells about itself while it runs; `telemetry` turns it into metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from talkahead.transport.messages import LoadReport
from talkahead.types import StreamAccount


class EngineTelemetry(Protocol):
    """Called on the loop's thread (stage "emit": the emitter's): must return at once."""

    def stage(self, name: str, seconds: float) -> None:
        """One passage of a stage.

        queue: arrival to slot; prefill; first_window: arrival to the first window's leaving; emit: of that
        window, from there to the return of the outlet's `send`.
        """

    def stepped(self, count: int, seconds: float, streams: int, nodes: int) -> None:
        """So many steps of so many streams, which took so long together, and whose drafts have up to `nodes`
        nodes, the root included."""

    def heard(self, seconds: float, first_chunk_s: float | None) -> None:
        """So many seconds of audio are with a listener: of the stream's first, so long after its request."""

    def pool(self, load: LoadReport) -> None:
        """The gauges, whenever one has changed."""

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        """A segment has left its slot: `committed[n]` of its target steps added n tokens."""

    def ended(self, account: StreamAccount) -> None:
        """A stream is over: its last window left, or its error did."""

    def late(self, stream: str, seconds: float) -> None:
        """A stream that is over was late: its listener waited so long in all for it to go on."""


class NoTelemetry:
    """The off switch."""

    def stage(self, name: str, seconds: float) -> None:
        return None

    def stepped(self, count: int, seconds: float, streams: int, nodes: int) -> None:
        return None

    def heard(self, seconds: float, first_chunk_s: float | None) -> None:
        return None

    def pool(self, load: LoadReport) -> None:
        return None

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        return None

    def ended(self, account: StreamAccount) -> None:
        return None

    def late(self, stream: str, seconds: float) -> None:
        return None
