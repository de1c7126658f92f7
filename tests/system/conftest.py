from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served, served
from talkahead_client import Client

_FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    """One server for all tests that leave it running."""
    # Clients that vanish stay in Triton's count (up to 26.03), so the end is not worth a long wait.
    with served("--exit-timeout", "1") as running:
        yield running


@pytest.fixture(scope="session")
def client(server: Served) -> Iterator[Client]:
    with Client(server.grpc) as connected:
        yield connected
