"""What `control` answers, for both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from talkahead_client.errors import StreamBroken

Result = TypeVar("Result")


@dataclass(frozen=True)
class ServerLoad:
    """How busy a server is."""

    active: int
    """Streams that it speaks now."""
    queued: int
    """Streams that wait for a place."""
    predicted_first_chunk_ms: float
    """What a request sent now would wait for its first chunk."""
    details: Mapping[str, Any]
    """Everything that the server reported."""


def read_voices(result: Mapping[str, Any]) -> tuple[str, ...]:
    return _read(result, lambda: tuple(str(voice) for voice in result["voices"]))


def read_sample_rate_hz(result: Mapping[str, Any]) -> int:
    return _read(result, lambda: int(result["sample_rate_hz"]))


def read_cancelled(result: Mapping[str, Any]) -> int:
    """How many streams a cancel met."""
    return _read(result, lambda: int(result["cancelled"]))


def read_load(result: Mapping[str, Any]) -> ServerLoad:
    return _read(
        result,
        lambda: ServerLoad(
            active=int(result["active"]),
            queued=int(result["queued"]),
            predicted_first_chunk_ms=float(result["predicted_first_chunk_ms"]),
            details=dict(result),
        ),
    )


def _read(result: Mapping[str, Any], build: Callable[[], Result]) -> Result:
    try:
        return build()
    except (KeyError, TypeError, ValueError) as error:
        raise StreamBroken(f"the server's answer to a control command cannot be read: {result!r}") from error
