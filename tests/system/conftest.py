from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from talkahead_client import Client

_FOLDER = Path(__file__).parent
_LAST_LINES = 60
# `perf` is run from the checkout, not installed.
sys.path.insert(0, str(_FOLDER.parent.parent))

from served import Served, served  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            item.add_marker(pytest.mark.server)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what its servers said last: where one crashed, nothing else tells of it."""
    report = yield
    if report.failed:
        fixtures: dict[str, object] = getattr(item, "funcargs", {})
        for name, value in fixtures.items():
            if isinstance(value, Served):
                report.sections.append((f"log of {name}", "\n".join(value.log.splitlines()[-_LAST_LINES:])))
    return report


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
