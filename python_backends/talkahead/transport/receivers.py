"""Sockets that a model reads: the talker's, whose address every window carries to the vocoder, and the
frontend's, whose address every segment carries to the talker."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from talkahead.transport.messages import (
    MAX_DATAGRAM,
    CancelReport,
    CancelRequest,
    Datagram,
    LoadReport,
    LoadRequest,
    PassBegun,
    StreamProgress,
    WindowDone,
    decode,
    encode,
)
from talkahead.transport.rendezvous import FRONTEND, TALKER, new_address, rendezvous_folder, socket_path

_RECEIVE_BUFFER = 1 << 20


class Listener(Protocol):
    """What the talker does with a datagram; `TalkerEngine` fits."""

    def acknowledge(self, done: WindowDone) -> None: ...

    def expect(self, begun: PassBegun) -> None: ...

    def cancel(self, stream: int | None, request_id: str | None) -> int: ...

    def load(self) -> LoadReport: ...


class _Receiver:
    """A socket, bound at once (others want its address), and the thread that reads it."""

    def __init__(self, folder: Path | None, prefix: str) -> None:
        folder = folder or rendezvous_folder()
        self.address = new_address()
        self.malformed = 0
        self._path = socket_path(folder, prefix, self.address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._socket.bind(str(self._path))
        self._thread: threading.Thread | None = None

    def _listen(self, handle: Callable[[Datagram], None], name: str) -> None:
        """Hand every datagram over from now on; ValueError marks one that nobody expects."""
        self._thread = threading.Thread(target=self._run, args=(handle,), name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waker:
                waker.sendto(b"", str(self._path))
            self._thread.join()
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _run(self, handle: Callable[[Datagram], None]) -> None:
        while data := self._socket.recv(MAX_DATAGRAM):
            try:
                handle(decode(data))
            except ValueError:
                self.malformed += 1


class AcknowledgementReceiver(_Receiver):
    """The talker's socket."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, TALKER)

    def start(self, listener: Listener) -> None:
        self._listen(partial(self._handle, listener), "talker-acknowledgements")

    def _handle(self, listener: Listener, message: Datagram) -> None:
        match message:
            case WindowDone():
                listener.acknowledge(message)
            case PassBegun():
                listener.expect(message)
            case CancelRequest(stream, request_id, reply_to):
                self._reply(reply_to, CancelReport(listener.cancel(stream, request_id)))
            case LoadRequest(reply_to):
                self._reply(reply_to, listener.load())
            case _:
                raise ValueError(message)

    def _reply(self, path: str, message: Datagram) -> None:
        with contextlib.suppress(OSError):  # the asker has left
            self._socket.sendto(encode(message), socket.MSG_DONTWAIT, path)


class ProgressReceiver(_Receiver):
    """The frontend's socket."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, FRONTEND)

    def start(self, on_progress: Callable[[StreamProgress], None]) -> None:
        def handle(message: Datagram) -> None:
            if not isinstance(message, StreamProgress):
                raise ValueError(message)
            on_progress(message)

        self._listen(handle, "frontend-progress")
