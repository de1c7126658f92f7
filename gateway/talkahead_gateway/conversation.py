"""One WebSocket: what its client writes, by turns, and what is sent back."""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from talkahead_gateway.house import Stage
from talkahead_gateway.manner import Manner
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.turn import FINAL, ListenerGone, Message, Turn, error_message
from talkahead_gateway.written_message import WrittenMessage, read_written_message

MAX_TURNS = 32
"""Open at once over one connection."""
DEFAULT_CONTEXT = "default"
"""Of messages that name none."""

_DONE, _POLICY, _FAILURE, _TRY_LATER = 1000, 1008, 1011, 1013
"""Codes of a WebSocket's end."""
_MAX_REASON = 120
"""Bytes of ASCII; the protocol allows 123."""

_LOG = logging.getLogger(__name__)


class Conversation(ABC):
    """An accepted WebSocket, until it is closed.

    Args:
        websocket: the connection.
        manner: how everything over it is spoken.
        stage: where.
        reader_s: for a client to take what was sent to it.
    """

    def __init__(self, websocket: WebSocket, manner: Manner, stage: Stage, reader_s: float) -> None:
        self._websocket = websocket
        self._manner = manner
        self._stage = stage
        self._reader_s = reader_s
        self._is_lost = asyncio.Event()
        self._has_heard_all = False
        self._closing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Returns once the connection is over, and all that was spoken over it has ended on the server."""
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._is_lost.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            turns = list(self._all_turns())
            for turn in turns:
                turn.stop()
            if self._closing is not None:
                tasks.append(self._closing)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for turn in turns:
                await turn.join()

    @abstractmethod
    def _all_turns(self) -> Iterable[Turn]:
        """Whatever may still be spoken."""

    @abstractmethod
    async def _heed(self, message: WrittenMessage) -> None:
        """Raises Refusal where the connection is to be closed because of it."""

    async def _listen(self) -> None:
        try:
            while (received := await self._receive()) is not None:
                if not self._has_heard_all:
                    await self._heed(read_written_message(received))
        except ListenerGone:
            return
        except Refusal as refusal:
            await self._refuse(refusal)
        except Exception:
            _LOG.exception("a connection was cut off by a failure of the gateway")
            await self._refuse(Refusal.of_own_failure())

    async def _receive(self) -> str | None:
        """What the client says next; None where it has gone. Raises Refusal where it says nothing."""
        while True:
            try:
                async with asyncio.timeout(self._manner.inactivity_s):
                    received = await self._websocket.receive()
            except TimeoutError:
                if not any(turn.is_speaking for turn in self._all_turns()):
                    message = f"inactivity_timeout: nothing was said for {self._manner.inactivity_s:g} s"
                    raise Refusal(408, message) from None
                continue
            if received["type"] == "websocket.disconnect":
                return None
            if received.get("text") is None:
                raise Refusal(400, "a binary message is not accepted; allowed: text that is JSON")
            return str(received["text"])

    async def _refuse(self, refusal: Refusal) -> None:
        try:
            await self._send(error_message(refusal))
            await self._close(refusal)
        except ListenerGone:
            return

    def _close_after(self, *turns: Turn) -> None:
        """Will say goodbye once all of them are over."""
        self._closing = asyncio.create_task(self._see_out(turns))

    async def _see_out(self, turns: Iterable[Turn]) -> None:
        refusal = None
        for turn in turns:
            await turn.join()
            refusal = refusal or turn.refusal
        try:
            await self._close(refusal)
        except ListenerGone:
            return

    async def _close(self, refusal: Refusal | None) -> None:
        await self._to_client(partial(self._websocket.close, _code(refusal), _reason(refusal)))

    async def _send(self, message: Message, context: str | None = None) -> None:
        """Raises ListenerGone."""
        told = message if context is None else {**message, "contextId": context}
        await self._to_client(partial(self._websocket.send_text, json.dumps(told)))

    async def _to_client(self, sending: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self._reader_s):
                await sending()
        except TimeoutError:
            _LOG.warning("a connection was cut off: its client takes nothing any more")
            self._is_lost.set()
            raise ListenerGone from None
        except (WebSocketDisconnect, WebSocketDisconnected):
            raise ListenerGone from None


class SingleTurn(Conversation):
    """`stream-input`: one text, which an empty message ends, and the connection with it."""

    def __init__(self, websocket: WebSocket, manner: Manner, stage: Stage, reader_s: float) -> None:
        super().__init__(websocket, manner, stage, reader_s)
        self._turn: Turn | None = None

    def _all_turns(self) -> Iterable[Turn]:
        return [] if self._turn is None else [self._turn]

    async def _heed(self, message: WrittenMessage) -> None:
        if self._turn is None:
            self._turn = Turn(self._manner, message.speed, self._stage, self._send)
            self._close_after(self._turn)
        if message.text or message.is_flushed:
            self._turn.write(message.text, flush=message.is_flushed)
        else:
            self._has_heard_all = True
            self._turn.end()


class ManyTurns(Conversation):
    """`multi-stream-input`: texts side by side, each with the name of its context."""

    def __init__(self, websocket: WebSocket, manner: Manner, stage: Stage, reader_s: float) -> None:
        super().__init__(websocket, manner, stage, reader_s)
        self._turns: dict[str, Turn] = {}
        self._closed: list[tuple[str, Turn]] = []
        """Those that are not over yet, or are still being played; another may have its name meanwhile."""

    def _all_turns(self) -> Iterable[Turn]:
        return [*self._turns.values(), *(turn for _, turn in self._closed)]

    async def _heed(self, message: WrittenMessage) -> None:
        self._closed = [(name, turn) for name, turn in self._closed if not turn.is_heard_out]
        context = message.context or DEFAULT_CONTEXT
        if message.closes_socket:
            await self._close_all()
        elif message.closes_context:
            await self._close_turn(context, flush=message.is_flushed)
        elif message.text or (message.is_flushed and context in self._turns):
            # Nothing but a name keeps the connection open, and begins no turn.
            await self._write(context, message)

    async def _write(self, context: str, message: WrittenMessage) -> None:
        turn = self._turns.get(context)
        try:
            if turn is None:
                turn = self._turns[context] = self._begin(context, message.speed)
            if not turn.is_over:
                turn.write(message.text, flush=message.is_flushed)
        except Refusal as refusal:
            if turn is not None:
                turn.stop()
            await self._send(error_message(refusal), context)
            await self._send(FINAL, context)

    def _begin(self, context: str, speed: float | None) -> Turn:
        if len(self._turns) + sum(not turn.is_over for _, turn in self._closed) >= MAX_TURNS:
            raise Refusal(
                429, f"context_id: {MAX_TURNS} are open over this connection; close one", param="context_id"
            )
        return Turn(self._manner, speed, self._stage, partial(self._send, context=context))

    async def _close_turn(self, context: str, *, flush: bool) -> None:
        """What was complete is spoken to its end; else, and once more, closing is an interruption."""
        turn = self._turns.pop(context, None)
        if turn is None:
            for name, closed in self._closed:
                if name == context:
                    await self._interrupt(closed, context)
            return
        turn.write("", flush=flush)
        self._closed.append((context, turn))
        if turn.is_complete:
            turn.end()
        else:
            await self._interrupt(turn, context)

    async def _close_all(self) -> None:
        self._has_heard_all = True
        for context in list(self._turns):
            await self._close_turn(context, flush=False)
        self._close_after(*(turn for _, turn in self._closed))

    async def _interrupt(self, turn: Turn, context: str) -> None:
        """Says how far its listener has heard it, also where all of it has been sent already."""
        if turn.is_heard_out:
            return
        told: Message = {"heard": turn.heard}
        if not turn.is_over:
            turn.stop()
            told = {**FINAL, **told}
        await self._send(told, context)


def _code(refusal: Refusal | None) -> int:
    if refusal is None:
        return _DONE
    if refusal.is_elsewhere:
        return _TRY_LATER
    return _FAILURE if refusal.status >= 500 else _POLICY


def _reason(refusal: Refusal | None) -> str:
    return "" if refusal is None else str(refusal).encode("ascii", "replace")[:_MAX_REASON].decode()
