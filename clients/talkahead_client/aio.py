"""The asyncio client: `async for chunk in client.speak("Hello."): await play(chunk.audio)`."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from talkahead_client import control, wire
from talkahead_client.client import DEFAULT_SERVER
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

MAX_WAITING_S = 30.0
"""Of speech that has arrived and was not taken; then nothing more is read from the server until some is."""


class AsyncClient:
    """A connection to a Talkahead server, for one event loop; made where the loop runs. See `Client`."""

    def __init__(
        self, server: str = DEFAULT_SERVER, credentials: grpc.ChannelCredentials | None = None
    ) -> None:
        self._channel = (
            grpc.aio.insecure_channel(server, wire.CHANNEL_OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(server, credentials, wire.CHANNEL_OPTIONS)
        )
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._readers: set[_AsyncReader] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels the utterances that still run, waits until the server has ended them, and disconnects."""
        readers = tuple(self._readers)
        for reader in readers:
            reader.leave()
        for reader in readers:
            await reader.join()
        await self._channel.close()

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
    ) -> AsyncSpeech:
        """Sends a text at once; the returned iterator yields its audio as it arrives. See `Client.speak`."""
        request = wire.speech_request(text, voice, reference, request_id or str(uuid.uuid4()), parameters)
        patience = Patience(deadline_s, chunk_deadline_s, retries)
        reader = _AsyncReader(self._stub, request, patience, self._readers.discard)
        self._readers.add(reader)
        return AsyncSpeech(reader)

    async def voices(self) -> tuple[str, ...]:
        """The server's voices; the first is its default."""
        return control.read_voices(await self._control(wire.control_request("voices")))

    async def sample_rate_hz(self) -> int:
        """Of the server's speech, and of recordings that it shall speak like."""
        return control.read_sample_rate_hz(await self._control(wire.control_request("voices")))

    async def load(self) -> ServerLoad:
        return control.read_load(await self._control(wire.control_request("load")))

    async def cancel(self, *, stream: int | None = None, request_id: str | None = None) -> int:
        """Ends a stream of any client, by the server's id or by its request id; returns how many it met."""
        if (stream is None) == (request_id is None):
            raise InvalidRequest("cancel: name the stream by either stream or request_id")
        request = wire.control_request("cancel", stream, request_id)
        return control.read_cancelled(await self._control(request, request_id))

    async def _control(self, request: service_pb2.ModelInferRequest, request_id: str | None = None) -> Any:  # noqa: ANN401
        metadata = wire.call_metadata(request_id)
        try:
            response = await self._stub.ModelInfer(request, timeout=CONTROL_DEADLINE_S, metadata=metadata)
            return wire.control_result(response)
        except grpc.RpcError as error:
            raise from_status(error.code().name, error.details(), is_speaking=False) from None


class AsyncSpeech:
    """One utterance: an asynchronous iterator over its chunks, which ends once.

    It ends by `StopAsyncIteration` or by a `SpeechError`. Leaving a loop early, and cancelling the task that
    waits for a chunk, cancels the utterance on the server. Where a variable holds on to this object, use
    `async with`, or call `cancel` or `close`.
    """

    def __init__(self, reader: _AsyncReader) -> None:
        self._reader = reader
        self._is_over = False
        self._is_cancelled = False

    @property
    def request_id(self) -> str:
        return self._reader.request_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        if self._is_over:
            raise StopAsyncIteration
        event = await self._next_event()
        if isinstance(event, AudioChunk):
            return event
        self._is_over = True
        raise event.error or StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        self._reader.leave()

    def cancel(self) -> None:
        """Tells the server to stop, and returns at once; who waits for a chunk gets `Cancelled`."""
        self._is_cancelled = True
        self._reader.leave()

    async def close(self) -> None:
        """Cancels what still runs, and waits (a bounded time) until the server has ended it."""
        self._is_over = True
        self._reader.leave()
        await self._reader.join()

    async def _next_event(self) -> AudioChunk | End:
        try:
            async with asyncio.timeout(self._reader.reception.patience_s()):
                event = await self._reader.next_event()
                return cancelled_here() if self._is_cancelled else event
        except TimeoutError:
            self._reader.leave()
            return End(self._reader.reception.impatience())
        except asyncio.CancelledError:
            self._is_over = True
            self._reader.leave()
            raise


class _AsyncReader:
    """Drains one gRPC stream into a queue, as a task. It knows nothing of the `AsyncSpeech` that reads the
    queue, so that a forgotten one is collected and cancelled."""

    def __init__(
        self,
        stub: service_pb2_grpc.GRPCInferenceServiceStub,
        request: service_pb2.ModelInferRequest,
        patience: Patience,
        on_end: Callable[[_AsyncReader], None],
    ) -> None:
        self.request_id = str(request.id)
        self.reception = Reception(patience)
        self._events: asyncio.Queue[AudioChunk | End] = asyncio.Queue()
        self._waiting_s = 0.0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._stub = stub
        self._on_end = on_end
        self._ended = asyncio.Event()
        # Taken once and for good by the first `leave`, which may run in a finaliser on any thread.
        self._left = threading.Lock()
        self._request = request
        self._metadata = wire.call_metadata(self.request_id)
        self._call = self._ask()
        self._refusal: SpeechError | None = None
        """What the server said instead of a first chunk, where it is asked again."""
        self._loop = asyncio.get_running_loop()
        # The loop holds its tasks weakly.
        self._tasks = [self._loop.create_task(self._run(), name=f"speech {self.request_id}")]

    def leave(self, error: SpeechError | None = None) -> None:
        """Ends the stream on the server, in the background; only the first call on a running one counts."""
        if self._ended.is_set() or not self._left.acquire(blocking=False):
            return
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start_farewell, error)

    async def join(self) -> None:
        await self._ended.wait()

    async def next_event(self) -> AudioChunk | End:
        """The next chunk, or the end; what it leaves behind may be filled up from the server."""
        event = await self._events.get()
        if isinstance(event, AudioChunk):
            self._waiting_s -= event.duration_s
            if not self._has_room.is_set() and self._waiting_s < MAX_WAITING_S:
                self.reception.resume()
                self._has_room.set()
        return event

    def _start_farewell(self, error: SpeechError | None) -> None:
        self._events.put_nowait(End(error) if error else cancelled_here())
        self._has_room.set()
        self._tasks.append(self._loop.create_task(self._farewell(), name=f"farewell {self.request_id}"))

    async def _run(self) -> None:
        try:
            self._events.put_nowait(End(await self._receive()))
        finally:
            self._ended.set()
            self._on_end(self)

    def _ask(self) -> Any:  # noqa: ANN401
        return self._stub.ModelStreamInfer(iter((self._request,)), metadata=self._metadata)

    async def _receive(self) -> Exception | None:
        """See the synchronous twin."""
        while self.reception.may_retry(error := await self._receive_once()):
            await asyncio.sleep(self.reception.retry())
            if self._left.locked():
                break
            self._call = self._ask()
        return error

    async def _receive_once(self) -> Exception | None:
        self._refusal = None
        try:
            async for message in self._call:
                self._accept(message)
                await self._has_room.wait()
            if self._refusal is not None:
                return self._refusal
            self.reception.finish()
        except grpc.RpcError as error:
            return from_status(error.code().name, error.details(), is_speaking=self.reception.is_speaking)
        except asyncio.CancelledError:
            if not self._call.cancelled():  # the task was cancelled, not the call
                self._call.cancel()
                raise
            return cancelled_here().error
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
            self._events.put_nowait(chunk)
            self._waiting_s += chunk.duration_s
            if self._waiting_s >= MAX_WAITING_S:
                self._has_room.clear()

    async def _farewell(self) -> None:
        """See the synchronous twin."""
        for pause_s in cancel_pauses():
            if self._ended.is_set() or self.reception.is_over or await self._ask_to_end():
                break
            await self._wait_for_end(pause_s)
        await self._wait_for_end(FAREWELL_S)
        self._call.cancel()

    async def _wait_for_end(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._ended.wait()
        except TimeoutError:
            return

    async def _ask_to_end(self) -> bool:
        """Whether asking once more is of no use: the cancel met the stream, or the server cannot take it."""
        request = wire.control_request("cancel", request_id=self.request_id)
        try:
            received = await self._call.initial_metadata() if self.reception.is_speaking else None
            metadata = self._metadata + wire.replica_metadata(received)
            response = await self._stub.ModelInfer(request, timeout=CANCEL_DEADLINE_S, metadata=metadata)
            return control.read_cancelled(wire.control_result(response)) > 0
        except grpc.RpcError as error:
            return error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
        except (SpeechError, grpc.aio.UsageError):  # the last: a closed channel
            return True
