"""What all doors share, and for whom they speak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from talkahead_client.protocol import ParameterValue

from talkahead_gateway.api_keys import ApiKeys
from talkahead_gateway.open_streams import OpenStreams
from talkahead_gateway.servers import Servers, Utterance
from talkahead_gateway.stored_voices import StoredVoices
from talkahead_gateway.voices import choose_voice


@dataclass(frozen=True)
class House:
    """Behind the doors.

    Args:
        servers: that speak.
        streams: what is being spoken.
        keys: who may ask.
        voices: that callers have left here.
    """

    servers: Servers
    streams: OpenStreams
    keys: ApiKeys
    voices: StoredVoices

    def stage(self, authorized_by: str) -> Stage:
        """For the caller whom `authorization` found; raises Refusal for a key that is not known."""
        return Stage(self, self.keys.caller_of(authorized_by))


@dataclass(frozen=True)
class Stage:
    """Where something is spoken, and for whom."""

    house: House
    caller: bytes

    @contextmanager
    def stream(self) -> Iterator[None]:
        """What is spoken in it counts as one of the open streams, and as one of its key's; raises Refusal."""
        with self.house.streams.one(), self.house.keys.stream(self.caller):
            yield

    async def speak(
        self, text: str, voice: str | None, parameters: Mapping[str, ParameterValue]
    ) -> Utterance:
        """See `Servers.speak`; a voice may be one that the caller has left here, too. Raises Refusal also
        where the key has had its characters."""
        own = voice and self.house.voices.find(self.caller, voice)
        with self.house.keys.characters(self.caller, len(text)):
            return await self.house.servers.speak(text, own.reference if own else voice, parameters)

    async def check_voice(self, name: str) -> None:
        """Raises Refusal for a voice that nobody has."""
        if self.house.voices.find(self.caller, name) is None:
            choose_voice(name, await self.house.servers.voices())
