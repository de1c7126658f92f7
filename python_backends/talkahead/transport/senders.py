"""Ways to the sockets of other models, which hold nobody up."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from queue import Full, Queue

from talkahead.transport.messages import Datagram, encode
from talkahead.transport.rendezvous import FRONTEND, TALKER, rendezvous_folder, socket_path

_MAX_BACKLOG = 4096
_SEND_TIMEOUT_S = 1.0


class _Sender:
    """`send` never blocks and never raises; what it cannot deliver is counted in `lost`.

    A thread does the sending and waits where it must: the kernel queues as few as ten datagrams per socket,
    which is less than the windows of one batch.
    """

    def __init__(self, folder: Path | None, prefix: str, name: str) -> None:
        self._folder = folder or rendezvous_folder()
        self._prefix = prefix
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(_SEND_TIMEOUT_S)
        self._queue: Queue[tuple[int, Datagram] | None] = Queue(_MAX_BACKLOG)
        self._is_closing = False
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def send(self, address: int, message: Datagram) -> None:
        """Tell who listens at `address`; 0 means that nobody does."""
        if address == 0:
            return
        try:
            self._queue.put_nowait((address, message))
        except Full:
            self.lost += 1

    def close(self) -> None:
        """Send what is queued, unless nobody takes it."""
        self._is_closing = True
        self._queue.put(None)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            address, message = item
            try:
                self._socket.sendto(encode(message), str(socket_path(self._folder, self._prefix, address)))
            except TimeoutError:
                self.lost += 1
                if self._is_closing:
                    return
            except OSError:
                self.lost += 1


class AcknowledgementSender(_Sender):
    """The vocoder's way to the talkers."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, TALKER, "vocoder-acknowledgements")


class ProgressSender(_Sender):
    """The talker's way to the frontends."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, FRONTEND, "talker-progress")
