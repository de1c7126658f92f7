"""Ways to the sockets of other models, which hold nobody up."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from queue import SimpleQueue

from talkahead.transport.messages import Datagram, encode
from talkahead.transport.rendezvous import FRONTEND, TALKER, rendezvous_folder, socket_path

_MAX_BACKLOG = 4096
_SEND_TIMEOUT_S = 1.0


class _Sender:
    """`send` never blocks and never raises; what it cannot deliver is counted in `lost`.

    What the kernel does not take at once is sent by a thread, in order with all that comes meanwhile: it
    queues as few as ten datagrams per socket, which is less than the windows of one batch.
    """

    def __init__(self, folder: Path | None, prefix: str, name: str) -> None:
        self._folder = folder or rendezvous_folder()
        self._prefix = prefix
        self._hasty, self._patient = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        self._hasty.setblocking(False)
        self._patient.settimeout(_SEND_TIMEOUT_S)
        self._door = threading.Lock()
        self._queue: SimpleQueue[tuple[bytes, str] | None] = SimpleQueue()
        self._num_queued = 0
        """With the one that is being sent."""
        self._is_closing = False
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def send(self, address: int, message: Datagram) -> None:
        """Tell who listens at `address`; 0 means that nobody does."""
        if address == 0:
            return
        item = encode(message), str(socket_path(self._folder, self._prefix, address))
        with self._door:
            if self._num_queued == 0 and self._is_settled_at_once(*item):
                return
            if self._num_queued == _MAX_BACKLOG:
                self.lost += 1
                return
            self._num_queued += 1
            self._queue.put(item)

    def _is_settled_at_once(self, data: bytes, path: str) -> bool:
        """It is sent, or never will be."""
        try:
            self._hasty.sendto(data, path)
        except BlockingIOError:
            return False
        except OSError:
            self.lost += 1
        return True

    def close(self) -> None:
        """Send what is queued, unless nobody takes it."""
        self._is_closing = True
        self._queue.put(None)
        self._thread.join()
        self._hasty.close()
        self._patient.close()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            failure = self._failure(*item)
            with self._door:
                self._num_queued -= 1
                self.lost += failure is not None
            if self._is_closing and isinstance(failure, TimeoutError):
                return

    def _failure(self, data: bytes, path: str) -> OSError | None:
        try:
            self._patient.sendto(data, path)
        except OSError as error:
            return error
        return None


class AcknowledgementSender(_Sender):
    """The vocoder's way to the talkers."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, TALKER, "vocoder-acknowledgements")


class ProgressSender(_Sender):
    """The talker's way to the frontends."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, FRONTEND, "talker-progress")
