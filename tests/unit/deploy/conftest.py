"""Helm renders each variant of the chart once for all tests."""

from __future__ import annotations

import pytest
from rendered import VARIANTS

from deploy.chart import Manifest


@pytest.fixture(scope="session", params=VARIANTS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    """Of each file of values, and of all at once."""
    return VARIANTS[request.param].manifests()


@pytest.fixture(scope="session")
def autoscaled() -> list[Manifest]:
    return VARIANTS["autoscaled"].manifests()
