"""Datagrams between the Python models of one server: windows done, progress, cancels, load.

The models are sibling processes, so they meet in a folder that their launcher made, or in one named after
their parent. A talker binds a Unix datagram socket named by a random address, which every window carries to
the vocoder; and a frontend another, whose address every segment carries to the talker.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import Full, Queue
from typing import Protocol

from talkahead.config import meeting_place
from talkahead.errors import Code, TalkaheadError
from talkahead.private_folder import private_folder

_WINDOW_DONE = struct.Struct("<cqqqB")
_DONE_TAG = b"W"
_MAX_DATAGRAM = 65_536
_RECEIVE_BUFFER = 1 << 20
_MAX_BACKLOG = 4096
_SEND_TIMEOUT_S = 1.0
_TALKER, _FRONTEND, _SUFFIX = "talker-", "frontend-", ".sock"


@dataclass(frozen=True)
class WindowDone:
    """The vocoder is done with a window; `ok` is false when it failed."""

    stream: int
    generation: int
    chunk: int
    ok: bool = True


@dataclass(frozen=True)
class StreamProgress:
    """The talker is done with the first `spoken` segments of a stream, or with all that may still come."""

    stream: int
    spoken: int
    is_over: bool = False


@dataclass(frozen=True)
class CancelRequest:
    """End one stream, or all streams of a Triton request id."""

    stream: int | None = None
    request_id: str | None = None
    reply_to: str = ""


@dataclass(frozen=True)
class CancelReport:
    """How many streams a cancel ended."""

    cancelled: int


@dataclass(frozen=True)
class LoadRequest:
    """Ask a talker how busy it is."""

    reply_to: str = ""


@dataclass(frozen=True)
class LoadReport:
    """How busy a talker is.

    Args:
        active: streams that hold a slot.
        queued: streams that wait for one.
        open_streams: streams whose client has not had the end yet; draining waits for these.
        slots: streams that fit at once.
        predicted_first_chunk_ms: for a request that came now.
        windows_in_flight: sent to the vocoder and not acknowledged.
    """

    active: int
    queued: int
    open_streams: int
    slots: int
    predicted_first_chunk_ms: float
    windows_in_flight: int = 0


Datagram = WindowDone | StreamProgress | CancelRequest | CancelReport | LoadRequest | LoadReport
_JSON_KINDS: dict[str, type[StreamProgress | CancelRequest | CancelReport | LoadRequest | LoadReport]] = {
    kind.__name__: kind for kind in (StreamProgress, CancelRequest, CancelReport, LoadRequest, LoadReport)
}


def encode(message: Datagram) -> bytes:
    """One datagram. Windows, of which there are many, are packed; the rest is JSON."""
    if isinstance(message, WindowDone):
        return _WINDOW_DONE.pack(_DONE_TAG, message.stream, message.generation, message.chunk, message.ok)
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode()


def decode(data: bytes) -> Datagram:
    """The inverse of `encode`; raises ValueError for anything else."""
    if data[:1] == _DONE_TAG:
        try:
            _, stream, generation, chunk, ok = _WINDOW_DONE.unpack(data)
        except struct.error as error:
            raise ValueError(f"a window datagram of {len(data)} bytes") from error
        return WindowDone(stream, generation, chunk, bool(ok))
    fields = json.loads(data)
    try:
        return _JSON_KINDS[fields.pop("kind")](**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an unknown datagram: {data[:80]!r}") from error


def new_address() -> int:
    """Of a socket: never 0, which means that nobody listens."""
    return secrets.randbits(62) | 1


def rendezvous_folder() -> Path:
    """Where the models of one server meet: in the launcher's folder, else in one named after their parent.

    That name can be guessed, so a folder that another user has put there is refused.
    """
    folder = meeting_place() or Path(tempfile.gettempdir()) / f"talkahead-{os.getppid()}"
    try:
        return private_folder(folder)
    except OSError as error:
        raise TalkaheadError(
            f"the models cannot meet: {error}; remove it, or set TMPDIR to a folder of your own",
            Code.UNAVAILABLE,
        ) from error


def _path(folder: Path, prefix: str, address: int) -> Path:
    return folder / f"{prefix}{address}{_SUFFIX}"


class Listener(Protocol):
    """What the talker does with a datagram; `TalkerEngine` fits."""

    def acknowledge(self, done: WindowDone) -> None: ...

    def cancel(self, stream: int | None, request_id: str | None) -> int: ...

    def load(self) -> LoadReport: ...


class _Receiver:
    """A socket, bound at once (others want its address), and the thread that reads it."""

    def __init__(self, folder: Path | None, prefix: str) -> None:
        folder = folder or rendezvous_folder()
        self.address = new_address()
        self.malformed = 0
        self._path = _path(folder, prefix, self.address)
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
        while data := self._socket.recv(_MAX_DATAGRAM):
            try:
                handle(decode(data))
            except ValueError:
                self.malformed += 1


class AcknowledgementReceiver(_Receiver):
    """The talker's socket."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, _TALKER)

    def start(self, listener: Listener) -> None:
        self._listen(partial(self._handle, listener), "talker-acknowledgements")

    def _handle(self, listener: Listener, message: Datagram) -> None:
        match message:
            case WindowDone():
                listener.acknowledge(message)
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
        super().__init__(folder, _FRONTEND)

    def start(self, hear: Callable[[StreamProgress], None]) -> None:
        def handle(message: Datagram) -> None:
            if not isinstance(message, StreamProgress):
                raise ValueError(message)
            hear(message)

        self._listen(handle, "frontend-progress")


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
                self._socket.sendto(encode(message), str(_path(self._folder, self._prefix, address)))
            except TimeoutError:
                self.lost += 1
                if self._is_closing:
                    return
            except OSError:
                self.lost += 1


class AcknowledgementSender(_Sender):
    """The vocoder's way to the talkers."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, _TALKER, "vocoder-acknowledgements")


class ProgressSender(_Sender):
    """The talker's way to the frontends."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder, _FRONTEND, "talker-progress")


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
            for talker in self._folder.glob(f"{_TALKER}*{_SUFFIX}"):
                with contextlib.suppress(OSError):
                    asking.sendto(encode(question(path)), str(talker))
                    expected += 1
            replies: list[Datagram] = []
            with contextlib.suppress(TimeoutError):
                while len(replies) < expected:
                    replies.append(decode(asking.recv(_MAX_DATAGRAM)))
            return replies

    @contextlib.contextmanager
    def _reply_socket(self) -> Iterator[tuple[socket.socket, str]]:
        path = self._folder / f"control-{secrets.token_hex(8)}{_SUFFIX}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.settimeout(self._timeout_s)
            asking.bind(str(path))
            try:
                yield asking, str(path)
            finally:
                path.unlink(missing_ok=True)
