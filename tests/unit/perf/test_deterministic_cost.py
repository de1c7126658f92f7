"""Two servers by turns; here scripted ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_triton import FakeTriton

from instruments.server import Server
from perf import deterministic


def test_the_exact_server_is_measured_beside_the_usual_one(
    triton: FakeTriton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = FakeTriton()

    @contextmanager
    def serve(grpc: None, metrics: None, options: Sequence[str], repository: Path) -> Iterator[Server]:
        yield Server(exact.address if "--deterministic" in options else triton.address, None)

    monkeypatch.setattr(deterministic, "server_at", serve)
    out = tmp_path / "deterministic.json"
    try:
        arguments = ["--streams", "2", "--seconds", "0", "--slices", "2", "--out", str(out)]
        assert deterministic.main(arguments) == 0
    finally:
        exact.close()
    assert len(exact.streams) == len(triton.streams) == 6
    own, usual = json.loads(out.read_text())["results"]
    assert own["configuration"] == "--deterministic" and own["gain"]["over"] == usual["configuration"]
    assert own["mode"] == "closed" and own["streams"] == 2
