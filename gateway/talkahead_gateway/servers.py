"""The Talkahead servers behind the door: the one that speaks least is asked first."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from talkahead_client import (
    AsyncClient,
    AsyncSpeech,
    AudioChunk,
    DeadlineExceeded,
    InvalidRequest,
    Reference,
    ServerBusy,
    ServerLoad,
    SpeechError,
)
from talkahead_client.protocol import ParameterValue

from talkahead_gateway.refusal import Refusal
from talkahead_gateway.voices import choose_voice

T = TypeVar("T")

_SYLLABLE = "Ready."
_SHORT: dict[str, Any] = {"health_check": True, "max_seconds": 0.1, "urgency": 3, "deadline_ms": 1_500}
_NO_SLOT = "deadline_ms: "
"""Of what a server says that had no slot for it in time."""
HEALTH_LIMIT_S = 2.0
"""For a server to say that it is well."""
_FRESH_S = 1.0
"""For so long nobody asks again: a syllable takes 0.05 s of a core."""

_PREDICTED_WAIT = re.compile(r"try again in about (\d+) ms")


class Utterance:
    """Speech that has begun: an asynchronous iterator over its chunks, of which the first has come.

    `async with` ends it on its server, however far it was heard.
    """

    def __init__(self, server: Server, speech: AsyncSpeech, first: AudioChunk) -> None:
        self._server = server
        self._speech = speech
        self._first = first

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._speech.close()
        finally:
            self._server.num_open -= 1

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        yield self._first
        async for chunk in self._speech:
            yield chunk


class Server:
    """One of them, made where the event loop runs.

    Args:
        address: of its gRPC endpoint, `host:port`.
        credentials: where it has TLS.
    """

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self.num_open = 0
        """Utterances that this gateway has asked it for."""
        self._client = AsyncClient(address, credentials)
        self._voices: tuple[str, ...] = ()

    async def voices(self) -> tuple[str, ...]:
        """Asked once, and once more after a failure, as a server that comes back may have others."""
        if not self._voices:
            self._voices = await self._client.voices()
        return self._voices

    async def sample_rate_hz(self) -> int:
        return await self._client.sample_rate_hz()

    async def check(self) -> ServerLoad:
        """Its load, once it has spoken a syllable: one whose talker hangs tells it all the same. Raises
        SpeechError where it does not speak, for another reason than that it is full."""
        try:
            async with self._client.speak(_SYLLABLE, **_SHORT) as speech:
                async for _ in speech:
                    pass
        except (ServerBusy, InvalidRequest):
            # It has no room; or it speaks like recordings alone.
            pass
        except DeadlineExceeded as error:
            if _NO_SLOT not in str(error):
                raise
        return await self._client.load()

    async def speak(
        self, text: str, voice: str | Reference | None, parameters: Mapping[str, ParameterValue]
    ) -> Utterance:
        """Returns when the first chunk has come; raises Refusal where none does."""
        self.num_open += 1
        try:
            like = await self._like(voice)
            speech = self._client.speak(text, **like, **parameters)  # type: ignore[arg-type]
            return Utterance(self, speech, await anext(speech))
        except BaseException as error:
            self.num_open -= 1
            if isinstance(error, SpeechError):
                self._voices = ()
                raise await self._refusal(error) from error
            raise

    async def close(self) -> None:
        await self._client.close()

    async def _like(self, voice: str | Reference | None) -> dict[str, str | Reference]:
        """How the client is told whom to speak like."""
        if isinstance(voice, Reference):
            return {"reference": voice}
        return {} if voice is None else {"voice": choose_voice(voice, await self.voices())}

    async def _refusal(self, error: SpeechError) -> Refusal:
        if not isinstance(error, ServerBusy):
            return Refusal.of_error(error)
        wait_s = await self._wait_s(str(error))
        return Refusal(429, str(error), code="rate_limit_exceeded", retry_after_s=wait_s)

    async def _wait_s(self, message: str) -> float | None:
        """Until it is worth another try, as the server's message predicts it, or its load."""
        if found := _PREDICTED_WAIT.search(message):
            return float(found[1]) / 1e3
        try:
            return (await self._client.load()).predicted_first_chunk_ms / 1e3
        except SpeechError:
            return None


class Servers:
    """All of them.

    Args:
        addresses: of their gRPC endpoints, at least one.
        credentials: where they have TLS.
    """

    def __init__(self, addresses: Sequence[str], credentials: grpc.ChannelCredentials | None = None) -> None:
        assert addresses
        self._servers = tuple(Server(address, credentials) for address in addresses)
        self._checking: asyncio.Task[dict[str, ServerLoad | None]] | None = None
        self._checked_s = -math.inf

    async def speak(
        self, text: str, voice: str | Reference | None, parameters: Mapping[str, ParameterValue]
    ) -> Utterance:
        """The utterance by the first server that takes it, from its first chunk on.

        Args:
            text: what to say.
            voice: one of a server, or one of OpenAI's; each server makes its own of it. None = its first. Or
                a recording, to speak like that.
            parameters: for the server, which knows what it allows.

        Raises:
            Refusal: it cannot be spoken as it stands, or no server takes it.
        """
        refusals: list[Refusal] = []
        for server in self._idlest():
            try:
                return await server.speak(text, voice, parameters)
            except Refusal as refusal:
                if not refusal.is_elsewhere:
                    raise
                refusals.append(refusal)
        raise min(refusals, key=_urgency)

    async def voices(self) -> tuple[str, ...]:
        """Of the first server that answers; raises Refusal where none does."""
        return await self._first(Server.voices)

    async def sample_rate_hz(self) -> int:
        """Likewise: what stands behind one gateway are replicas."""
        return await self._first(Server.sample_rate_hz)

    async def loads(self) -> dict[str, ServerLoad | None]:
        """By address, of those that speak; None where one does not, within `HEALTH_LIMIT_S`. Who asks within
        a second of another hears the same."""
        if self._checking is None or time.monotonic() > self._checked_s + _FRESH_S:
            self._checked_s = time.monotonic()
            self._checking = asyncio.create_task(self._check())
        # Who asks may leave; others wait for the same.
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _first(self, ask: Callable[[Server], Awaitable[T]]) -> T:
        refusals: list[Refusal] = []
        for server in self._idlest():
            try:
                return await ask(server)
            except SpeechError as error:
                refusals.append(Refusal.of_error(error))
        raise refusals[0]

    async def _check(self) -> dict[str, ServerLoad | None]:
        loads = await asyncio.gather(*map(_load, self._servers))
        return dict(zip((server.address for server in self._servers), loads, strict=True))

    def _idlest(self) -> list[Server]:
        return sorted(self._servers, key=lambda server: server.num_open)


async def _load(server: Server) -> ServerLoad | None:
    try:
        async with asyncio.timeout(HEALTH_LIMIT_S):
            return await server.check()
    except (SpeechError, TimeoutError):
        return None


def _urgency(refusal: Refusal) -> tuple[int, float]:
    """A server that is full says more than one that is away, and the shortest wait is the one to tell."""
    return refusal.status, refusal.retry_after_s or 0.0
