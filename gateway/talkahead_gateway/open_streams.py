"""The utterances that are being spoken, until the last one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from talkahead_gateway.refusal import Refusal


class OpenStreams:
    """Counts what is open; once it drains, nothing more is let in."""

    def __init__(self) -> None:
        self._count = 0
        self._is_draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return self._count

    def check(self) -> None:
        """Raises Refusal once it drains."""
        if self._is_draining:
            raise Refusal(503, "the gateway is shutting down; ask another one")

    @contextmanager
    def one(self) -> Iterator[None]:
        """An utterance, from its request to the last byte; raises Refusal as `check` does."""
        self.check()
        self._count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    async def drain(self, limit_s: float) -> int:
        """Lets nothing in, and waits until all has been spoken; returns how many still were at the limit."""
        self._is_draining = True
        try:
            async with asyncio.timeout(limit_s):
                await self._idle.wait()
        except TimeoutError:
            pass
        return self._count
