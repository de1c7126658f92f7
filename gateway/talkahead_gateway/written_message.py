"""What a client says on a WebSocket for text that is still being written, as ElevenLabs' interface has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from talkahead_gateway.json_object import read_json_object
from talkahead_gateway.refusal import Refusal

MAX_CHARACTERS = 20_000
"""Of a message, and of text that waits to be spoken: as many as the server takes at once."""


@dataclass(frozen=True)
class WrittenMessage:
    """One message; fields that are not known here have no effect."""

    text: str
    context: str | None
    """Whose text it is, where several are spoken over one connection."""
    is_flushed: bool
    """What has been written so far is to be spoken now."""
    closes_context: bool
    closes_socket: bool
    speed: float | None


def read_written_message(received: str) -> WrittenMessage:
    """Raises Refusal for what is not JSON, or has a field that cannot be read."""
    given = read_json_object(received, "message", "text")
    settings = given.get("voice_settings") or {}
    if not isinstance(settings, dict):
        raise Refusal.of_field("voice_settings", settings, "an object")
    if dictionaries := given.get("pronunciation_dictionary_locators"):
        raise Refusal.of_field("pronunciation_dictionary_locators", dictionaries, "none")
    return WrittenMessage(
        text=_text(given),
        context=_context(given),
        is_flushed=_flag(given, "flush"),
        closes_context=_flag(given, "close_context"),
        closes_socket=_flag(given, "close_socket"),
        speed=_speed(settings),
    )


def _text(given: dict[str, Any]) -> str:
    text = given.get("text")
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Refusal.of_field("text", text, "a string")
    if len(text) > MAX_CHARACTERS:
        raise Refusal.of_field("text", text, f"up to {MAX_CHARACTERS:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Refusal.of_field("text", text, "characters, of which none is half a surrogate pair")
    return text


def _context(given: dict[str, Any]) -> str | None:
    """The packages of ElevenLabs know both names."""
    field = "contextId" if given.get("context_id") is None else "context_id"
    context = given.get(field)
    if context is not None and not isinstance(context, str):
        raise Refusal.of_field(field, context, "a string")
    return context


def _flag(given: dict[str, Any], field: str) -> bool:
    value = given.get(field)
    if value is not None and not isinstance(value, bool):
        raise Refusal.of_field(field, value, "true or false")
    return bool(value)


def _speed(settings: dict[str, Any]) -> float | None:
    """None where it is the usual one, which some clients always send."""
    speed = settings.get("speed")
    if speed is None or (speed == 1 and not isinstance(speed, bool)):
        return None
    if isinstance(speed, bool) or not isinstance(speed, int | float):
        raise Refusal.of_field("voice_settings.speed", speed, "a number")
    return speed
