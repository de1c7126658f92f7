"""The synchronous client: `for chunk in client.speak("Hello."): play(chunk.audio)`."""

from __future__ import annotations

import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from talkahead_client import control, wire
from talkahead_client.control import ServerLoad
from talkahead_client.errors import InvalidRequest, SpeechError, from_status
from talkahead_client.patience import (
    CANCEL_DEADLINE_S,
    CONTROL_DEADLINE_S,
    DEFAULT_CHUNK_DEADLINE_S,
    FAREWELL_S,
    Patience,
    cancel_pauses,
)
from talkahead_client.protocol import ParameterValue
from talkahead_client.reception import AudioChunk, End, Reception, cancelled_here
from talkahead_client.reference import Reference

DEFAULT_SERVER = "127.0.0.1:8001"


class Client:
    """A connection to a Talkahead server. Thread-safe: many utterances may run at once.

    Args:
        server: address of the server's gRPC endpoint, `host:port`.
        credentials: for a server with TLS; None = plain text.
    """

    def __init__(
        self, server: str = DEFAULT_SERVER, credentials: grpc.ChannelCredentials | None = None
    ) -> None:
        self._channel = (
            grpc.insecure_channel(server, wire.CHANNEL_OPTIONS)
            if credentials is None
            else grpc.secure_channel(server, credentials, wire.CHANNEL_OPTIONS)
        )
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._lock = threading.Lock()
        self._readers: set[_Reader] = set()
        # Also at exit, so that a script that never closes its client leaves politely.
        self._closer = weakref.finalize(self, _close, self._channel, self._readers, self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancels the utterances that still run, waits until the server has ended them, and disconnects."""
        self._closer()

    def speak(
        self,
        text: str,
        *,
        voice: str | None = None,
        reference: Reference | None = None,
        deadline_s: float | None = None,
        chunk_deadline_s: float | None = DEFAULT_CHUNK_DEADLINE_S,
        retries: int = 0,
        request_id: str | None = None,
        **parameters: ParameterValue,
    ) -> Speech:
        """Sends a text at once; the returned iterator yields its audio as it arrives.

        Args:
            text: what to say, 1 to 20,000 characters.
            voice: one of `voices()`; default: the server's first.
            reference: a recording to speak like, in place of a voice.
            deadline_s: for the whole utterance.
            chunk_deadline_s: for the first chunk, and from each chunk to the next.
            retries: how often it is asked for again where the server goes away, or is away, before the first
                chunk: behind a proxy, another replica takes it.
            request_id: a name for the stream in logs and for `cancel`; default: a random UUID.
            parameters: see `protocol.PARAMETERS`.
        """
        request = wire.speech_request(text, voice, reference, request_id or str(uuid.uuid4()), parameters)
        reader = _Reader(self._stub, request, Patience(deadline_s, chunk_deadline_s, retries), self._forget)
        with self._lock:
            self._readers.add(reader)
        reader.start()
        return Speech(reader)

    def voices(self) -> tuple[str, ...]:
        """The server's voices; the first is its default."""
        return control.read_voices(self._control(wire.control_request("voices")))

    def sample_rate_hz(self) -> int:
        """Of the server's speech, and of recordings that it shall speak like."""
        return control.read_sample_rate_hz(self._control(wire.control_request("voices")))

    def load(self) -> ServerLoad:
        return control.read_load(self._control(wire.control_request("load")))

    def cancel(self, *, stream: int | None = None, request_id: str | None = None) -> int:
        """Ends a stream of any client, by the server's id or by its request id; returns how many it met."""
        if (stream is None) == (request_id is None):
            raise InvalidRequest("cancel: name the stream by either stream or request_id")
        request = wire.control_request("cancel", stream, request_id)
        return control.read_cancelled(self._control(request, request_id))

    def _control(self, request: service_pb2.ModelInferRequest, request_id: str | None = None) -> Any:  # noqa: ANN401
        metadata = wire.call_metadata(request_id)
        try:
            response = self._stub.ModelInfer(request, timeout=CONTROL_DEADLINE_S, metadata=metadata)
            return wire.control_result(response)
        except grpc.RpcError as error:
            raise from_status(error.code().name, error.details(), is_speaking=False) from None

    def _forget(self, reader: _Reader) -> None:
        with self._lock:
            self._readers.discard(reader)


def _close(channel: grpc.Channel, open_readers: set[_Reader], lock: threading.Lock) -> None:
    with lock:
        readers = tuple(open_readers)
    for reader in readers:
        reader.leave()
    for reader in readers:
        reader.join()
    channel.close()


class Speech:
    """One utterance: an iterator over its chunks that ends once, by `StopIteration` or a `SpeechError`.

    Leaving a loop early (`break`, an exception) cancels the utterance on the server. Where a variable holds
    on to this object, use `with`, or call `cancel` or `close`.
    """

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._is_over = False
        self._is_cancelled = False

    @property
    def request_id(self) -> str:
        return self._reader.request_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AudioChunk:
        if self._is_over:
            raise StopIteration
        event = self._next_event()
        if isinstance(event, AudioChunk):
            return event
        self._is_over = True
        raise event.error or StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._reader.leave()

    def cancel(self) -> None:
        """Tells the server to stop, and returns at once; whoever waits for a chunk gets `Cancelled`."""
        self._is_cancelled = True
        self._reader.leave()

    def close(self) -> None:
        """Cancels what still runs, and waits (a bounded time) until the server has ended it."""
        self._is_over = True
        self._reader.leave()
        self._reader.join()

    def _next_event(self) -> AudioChunk | End:
        try:
            event = self._reader.events.get(timeout=self._reader.reception.patience_s())
            return cancelled_here() if self._is_cancelled else event
        except Empty:
            self._reader.leave()
            return End(self._reader.reception.impatience())


class _Reader:
    """Drains one gRPC stream into a queue, on a thread of its own.

    So arrival times are true, and a player that blocks holds nothing up. It knows nothing of the `Speech`
    that reads the queue, so that a forgotten one is collected and cancelled.
    """

    def __init__(
        self,
        stub: service_pb2_grpc.GRPCInferenceServiceStub,
        request: service_pb2.ModelInferRequest,
        patience: Patience,
        on_end: Callable[[_Reader], None],
    ) -> None:
        self.request_id = str(request.id)
        self.reception = Reception(patience)
        self.events: SimpleQueue[AudioChunk | End] = SimpleQueue()
        self._stub = stub
        self._on_end = on_end
        self._ended = threading.Event()
        # Taken for good by the first `leave`; never waited for, since `leave` may run in a finaliser.
        self._left = threading.Lock()
        self._request = request
        self._metadata = wire.call_metadata(self.request_id)
        self._call = self._ask()
        self._refusal: SpeechError | None = None
        """What the server said instead of a first chunk, where it is asked again."""

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"speech {self.request_id}", daemon=True).start()

    def leave(self, error: SpeechError | None = None) -> None:
        """Ends the stream on the server, in the background; only the first call on a running one counts."""
        if self._ended.is_set() or not self._left.acquire(blocking=False):
            return
        self.events.put(End(error) if error else cancelled_here())
        if sys.is_finalizing():  # no thread can be started any more
            self._call.cancel()
        else:
            threading.Thread(target=self._farewell, name=f"farewell {self.request_id}").start()

    def join(self) -> None:
        self._ended.wait()

    def _run(self) -> None:
        end = End(self._receive())
        # First this: whoever takes the event may drop the `Speech`, and that must not ask for a cancel.
        self._ended.set()
        self.events.put(end)
        self._on_end(self)

    def _ask(self) -> Any:  # noqa: ANN401
        return self._stub.ModelStreamInfer(iter((self._request,)), metadata=self._metadata)

    def _receive(self) -> Exception | None:
        """Until the end of the last try; what it ended with."""
        while self.reception.may_retry(error := self._receive_once()):
            time.sleep(self.reception.retry())
            if self._left.locked():
                break
            self._call = self._ask()
        return error

    def _receive_once(self) -> Exception | None:
        self._refusal = None
        try:
            for message in self._call:
                self._accept(message)
            if self._refusal is not None:
                return self._refusal
            self.reception.finish()
        except grpc.RpcError as error:
            return from_status(error.code().name, error.details(), is_speaking=self.reception.is_speaking)
        except Exception as error:
            self._call.cancel()
            return error
        return None

    def _accept(self, message: service_pb2.ModelStreamInferResponse) -> None:
        if self._left.locked():
            return
        try:
            chunk = self.reception.accept(message)
        except SpeechError as error:
            if self.reception.may_retry(error):
                self._refusal = error
            else:
                self.leave(error)
            return
        if chunk is not None:
            self.events.put(chunk)

    def _farewell(self) -> None:
        """Asks the server to end the stream, and cuts the connection only if that does not help.

        A connection that is cut while the server speaks leaks the request in Triton (up to 26.03).
        """
        for pause_s in cancel_pauses():
            if self._ended.is_set() or self.reception.is_over or self._ask_to_end():
                break
            self._ended.wait(pause_s)
        self._ended.wait(FAREWELL_S)
        self._call.cancel()

    def _ask_to_end(self) -> bool:
        """Whether asking once more is of no use: the cancel met the stream, or the server cannot take it."""
        request = wire.control_request("cancel", request_id=self.request_id)
        received = self._call.initial_metadata() if self.reception.is_speaking else None
        metadata = self._metadata + wire.replica_metadata(received)
        try:
            response = self._stub.ModelInfer(request, timeout=CANCEL_DEADLINE_S, metadata=metadata)
            return control.read_cancelled(wire.control_result(response)) > 0
        except grpc.RpcError as error:
            return error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
        except (SpeechError, ValueError):  # ValueError: the channel was closed meanwhile
            return True
