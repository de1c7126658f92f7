from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import uvicorn.server
from answering import Answering, Open, answering
from fake_triton import FakeTriton
from talkahead_gateway.door import DoorOptions


class _Hurried:
    """`asyncio`, where nobody sleeps for long."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


@pytest.fixture(autouse=True)
def _ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn looks for its end, and its connections', every tenth of a second: 0.2 s of each test."""
    monkeypatch.setattr(uvicorn.server, "asyncio", _Hurried())


@pytest.fixture
def triton() -> Iterator[FakeTriton]:
    server = FakeTriton()
    yield server
    server.close()


@pytest.fixture
def open_door(triton: FakeTriton) -> Open:
    def opened(
        *addresses: str,
        drain_timeout_s: float = 5.0,
        **options: Any,  # noqa: ANN401
    ) -> AbstractAsyncContextManager[Answering]:
        return answering(DoorOptions(addresses or (triton.address,), **options), drain_timeout_s)

    return opened
