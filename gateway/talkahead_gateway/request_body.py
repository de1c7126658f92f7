"""The body of a request, within its limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request

from talkahead_gateway.refusal import Refusal


@dataclass(frozen=True)
class BodyLimit:
    """What a client may send, and how long that may take."""

    num_bytes: int
    seconds: float
    """From the request's head on."""


async def read_body(request: Request, limit: BodyLimit) -> bytes:
    """Raises Refusal where it is too long, or does not come."""
    try:
        async with asyncio.timeout(limit.seconds):
            return await _read(request, limit.num_bytes)
    except TimeoutError:
        raise Refusal(408, f"the body had not come after {limit.seconds:g} s") from None


async def _read(request: Request, limit_bytes: int) -> bytes:
    """Of a longer one nothing is kept; it is heard out, as few clients listen before they have said all."""
    body = bytearray()
    num_bytes = 0
    async for part in request.stream():
        num_bytes += len(part)
        if num_bytes <= limit_bytes:
            body += part
    if num_bytes > limit_bytes:
        raise Refusal(413, f"body: {num_bytes} bytes are not accepted; allowed: up to {limit_bytes} bytes")
    return bytes(body)
