"""docker-compose.yml is what the Compose Specification allows, and what it does not allow is told."""

from __future__ import annotations

import pytest

from deploy.compose import FILE, services

TEXT = FILE.read_text(encoding="utf-8")


def test_the_file_is_allowed() -> None:
    assert services(TEXT) == ["talkahead"]


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ("shm_size: ", "shm_sise: ", "shm_sise"),
        ("shm_size: 256mb", "shm_size: much", r"shm_size: value `much`.*unit must be"),
        ("restart: unless-stopped", "restart: sometimes", "`sometimes`, expected one of `no`, `always`"),
        ("stop_grace_period: 60s", "stop_grace_period: soon", "stop_grace_period: duration `soon`"),
        ('"127.0.0.1:8001:8001"', '"127.0.0.1:grpc:8001"', r"ports\[1\]: error parsing port"),
        ("read_only: true", "read_only: perhaps", "read_only"),
    ],
)
def test_what_is_not_is_told_with_its_field(written: str, instead: str, told: str) -> None:
    assert TEXT.count(written) == 1
    with pytest.raises(ValueError, match=told):
        services(TEXT.replace(written, instead))
