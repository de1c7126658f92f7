from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

UNIT = Path(__file__).parent.parent
# `perf` is run from the checkout, not installed; the scripted Triton is the clients'.
sys.path[:0] = [str(UNIT.parent.parent), str(UNIT / "clients")]

from fake_triton import FakeTriton  # noqa: E402


@pytest.fixture
def triton() -> Iterator[FakeTriton]:
    server = FakeTriton()
    yield server
    server.close()
