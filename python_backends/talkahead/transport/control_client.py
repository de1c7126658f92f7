"""Questions to every talker of a server."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from talkahead.errors import Code, TalkaheadError
from talkahead.transport.messages import (
    MAX_DATAGRAM,
    CancelReport,
    CancelRequest,
    Datagram,
    LoadReport,
    LoadRequest,
    decode,
    encode,
)
from talkahead.transport.rendezvous import SUFFIX, TALKER, rendezvous_folder


class ControlClient:
    """Asks every talker of this server; a talker that has died is passed over."""

    def __init__(self, folder: Path | None = None, timeout_s: float = 2.0) -> None:
        self._folder = folder or rendezvous_folder()
        self._timeout_s = timeout_s

    def cancel(self, stream: int | None = None, request_id: str | None = None) -> int:
        """Streams ended by this."""
        if stream is None and not request_id:
            raise TalkaheadError("cancel: give STREAM or REQUEST_ID", Code.INVALID_ARGUMENT)
        replies = self._ask(lambda reply_to: CancelRequest(stream, request_id, reply_to))
        return sum(reply.cancelled for reply in replies if isinstance(reply, CancelReport))

    def load(self) -> list[LoadReport]:
        """One report per living talker."""
        replies = self._ask(lambda reply_to: LoadRequest(reply_to))
        return [reply for reply in replies if isinstance(reply, LoadReport)]

    def _ask(self, question: Callable[[str], Datagram]) -> list[Datagram]:
        with self._reply_socket() as (asking, path):
            expected = 0
            for talker in self._folder.glob(f"{TALKER}*{SUFFIX}"):
                with contextlib.suppress(OSError):
                    asking.sendto(encode(question(path)), str(talker))
                    expected += 1
            replies: list[Datagram] = []
            with contextlib.suppress(TimeoutError):
                while len(replies) < expected:
                    replies.append(decode(asking.recv(MAX_DATAGRAM)))
            return replies

    @contextlib.contextmanager
    def _reply_socket(self) -> Iterator[tuple[socket.socket, str]]:
        path = self._folder / f"control-{secrets.token_hex(8)}{SUFFIX}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.settimeout(self._timeout_s)
            asking.bind(str(path))
            try:
                yield asking, str(path)
            finally:
                path.unlink(missing_ok=True)
