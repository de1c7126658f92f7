"""How encoded speech travels: as it is, or in server-sent events."""

from __future__ import annotations

import base64
import json
from typing import Protocol

from talkahead_client import Stats


class Framing(Protocol):
    """One value of `stream_format`."""

    def media_type(self, audio: str) -> str:
        """Of the response, for audio of a type."""

    def piece(self, audio: bytes) -> bytes: ...

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

    def piece(self, audio: bytes) -> bytes:
        return audio

    def end(self, num_characters: int, stats: Stats) -> bytes:
        return b""


class ServerSentEvents:
    """Events with OpenAI's names. A token of usage is a character of the text, or a frame of the speech."""

    def media_type(self, audio: str) -> str:
        return "text/event-stream"

    def piece(self, audio: bytes) -> bytes:
        return _event({"type": "speech.audio.delta", "audio": base64.b64encode(audio).decode("ascii")})

    def end(self, num_characters: int, stats: Stats) -> bytes:
        usage = {
            "input_tokens": num_characters,
            "output_tokens": stats.frames,
            "total_tokens": num_characters + stats.frames,
        }
        return _event({"type": "speech.audio.done", "usage": usage})


FRAMINGS: dict[str, Framing] = {"audio": BareAudio(), "sse": ServerSentEvents()}
"""By the names of `stream_format`; the first is OpenAI's default."""


def _event(content: dict[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()
