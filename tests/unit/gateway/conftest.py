from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from answering import Answering, Open, answering
from fake_triton import FakeTriton
from talkahead_gateway.door import DoorOptions


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
