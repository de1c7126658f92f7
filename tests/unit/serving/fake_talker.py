"""The talker's side of the acknowledgements."""

from __future__ import annotations

from queue import Queue

from talkahead.transport.messages import LoadReport, PassBegun, WindowDone
from talkahead.transport.receivers import AcknowledgementReceiver


class Acknowledged:
    """A talker that keeps the windows it was told of, and knows one stream."""

    def __init__(self) -> None:
        self._done: Queue[WindowDone] = Queue()
        self.told: list[WindowDone | PassBegun] = []
        """All of it, in order."""
        self.cancelled: list[tuple[int | None, str | None]] = []
        self._receiver = AcknowledgementReceiver()
        self._receiver.start(self)

    @property
    def address(self) -> int:
        return self._receiver.address

    def next(self) -> WindowDone:
        return self._done.get(timeout=5)

    def close(self) -> None:
        self._receiver.close()

    def acknowledge(self, done: WindowDone) -> None:
        self.told.append(done)
        self._done.put(done)

    def expect(self, begun: PassBegun) -> None:
        self.told.append(begun)

    def cancel(self, stream: int | None, request_id: str | None) -> int:
        self.cancelled.append((stream, request_id))
        return 1

    def load(self) -> LoadReport:
        return LoadReport(active=2, queued=1, open_streams=3, slots=16, predicted_first_chunk_ms=40.0)
