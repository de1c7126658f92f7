"""How encoded speech travels: as it is, or in server-sent events."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Protocol

from talkahead_client import AudioChunk, Stats


class Framing(Protocol):
    """One value of `stream_format`."""

    def media_type(self, audio: str) -> str:
        """Of the response, for audio of a type."""

    def piece(self, audio: bytes, chunk: AudioChunk) -> bytes:
        """Encoded audio, and the chunk of which it was made."""

    def end(self, num_characters: int, stats: Stats) -> bytes:
        """What follows the last piece.

        Args:
            num_characters: of the text.
            stats: of the utterance's last chunk.
        """


class BareAudio:
    """The bytes of the audio."""

    def media_type(self, audio: str) -> str:
        return audio

    def piece(self, audio: bytes, chunk: AudioChunk) -> bytes:
        return audio

    def end(self, num_characters: int, stats: Stats) -> bytes:
        return b""


class ServerSentEvents:
    """Events with OpenAI's names. A token of usage is a character of the text, or a frame of the speech."""

    def media_type(self, audio: str) -> str:
        return "text/event-stream"

    def piece(self, audio: bytes, chunk: AudioChunk) -> bytes:
        return _event(self._delta(audio, chunk))

    def end(self, num_characters: int, stats: Stats) -> bytes:
        usage = {
            "input_tokens": num_characters,
            "output_tokens": stats.frames,
            "total_tokens": num_characters + stats.frames,
        }
        return _event({"type": "speech.audio.done", "usage": usage})

    def _delta(self, audio: bytes, chunk: AudioChunk) -> dict[str, object]:
        return {"type": "speech.audio.delta", "audio": base64.b64encode(audio).decode("ascii")}


class DetailedEvents(ServerSentEvents):
    """The same, each piece with the words that begin in it and the server's totals so far."""

    def _delta(self, audio: bytes, chunk: AudioChunk) -> dict[str, object]:
        words = [{**asdict(word), "kind": word.kind.name.lower()} for word in chunk.words]
        stats = {**asdict(chunk.stats), "pair": chunk.stats.pair}
        return {**super()._delta(audio, chunk), "words": words, "stats": stats}


FRAMINGS: dict[str, Framing] = {
    "audio": BareAudio(),
    "sse": ServerSentEvents(),
    "sse_details": DetailedEvents(),
}
"""By the names of `stream_format`; the first is OpenAI's default, the last is no name of OpenAI's."""


def _event(content: dict[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()
