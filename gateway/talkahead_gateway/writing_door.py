"""WebSockets for text that is still being written, as ElevenLabs' interface has them."""

from __future__ import annotations

from starlette.websockets import WebSocket

from talkahead_gateway.api_keys import ApiKeys, authorization
from talkahead_gateway.conversation import Conversation, ManyTurns, SingleTurn
from talkahead_gateway.manner import read_manner
from talkahead_gateway.open_streams import OpenStreams
from talkahead_gateway.refusal import Refusal
from talkahead_gateway.servers import Servers
from talkahead_gateway.turn import Stage
from talkahead_gateway.voices import choose_voice


class WritingDoor:
    """Its endpoints. What is wrong with an address is answered before the WebSocket is accepted, as any other
    request would be.

    Args:
        reader_s: for a client to take what was sent to it.
    """

    def __init__(self, servers: Servers, streams: OpenStreams, keys: ApiKeys, reader_s: float) -> None:
        self._servers = servers
        self._streams = streams
        self._keys = keys
        self._reader_s = reader_s

    async def hear_one_turn(self, websocket: WebSocket) -> None:
        await self._hear(websocket, SingleTurn)

    async def hear_many_turns(self, websocket: WebSocket) -> None:
        await self._hear(websocket, ManyTurns)

    async def _hear(self, websocket: WebSocket, kind: type[Conversation]) -> None:
        try:
            caller = self._keys.caller_of(authorization(websocket.headers))
            manner = read_manner(websocket.path_params["voice"], websocket.query_params)
            choose_voice(manner.voice, await self._servers.voices())
        except Refusal as refusal:
            await websocket.send_denial_response(refusal.response())
            return
        await websocket.accept()
        stage = Stage(self._servers, self._streams, self._keys, caller)
        await kind(websocket, manner, stage, self._reader_s).run()
