"""WebSockets for text that is still being written, as ElevenLabs' interface has them."""

from __future__ import annotations

from starlette.websockets import WebSocket

from talkahead_gateway.api_keys import authorization
from talkahead_gateway.conversation import Conversation, ManyTurns, SingleTurn
from talkahead_gateway.house import House
from talkahead_gateway.manner import read_manner
from talkahead_gateway.refusal import Refusal


class WritingDoor:
    """Its endpoints. What is wrong with an address is answered before the WebSocket is accepted, as any other
    request would be.

    Args:
        house: where it is spoken.
        reader_s: for a client to take what was sent to it.
    """

    def __init__(self, house: House, reader_s: float) -> None:
        self._house = house
        self._reader_s = reader_s

    async def hear_one_turn(self, websocket: WebSocket) -> None:
        await self._hear(websocket, SingleTurn)

    async def hear_many_turns(self, websocket: WebSocket) -> None:
        await self._hear(websocket, ManyTurns)

    async def _hear(self, websocket: WebSocket, kind: type[Conversation]) -> None:
        try:
            stage = self._house.stage(authorization(websocket.headers))
            manner = read_manner(websocket.path_params["voice"], websocket.query_params)
            await stage.check_voice(manner.voice)
        except Refusal as refusal:
            await websocket.send_denial_response(refusal.response())
            return
        await websocket.accept()
        await kind(websocket, manner, stage, self._reader_s).run()
