"""What `talkahead drafts train` leaves beside a talker is served as it lies there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_backend import FakeBackend
from periodic_talker import write_repository
from talkahead.config import ModelConfig
from talkahead.draft_training import draft_run
from talkahead.draft_training.draft_order import DraftOrder
from talkahead.draft_training.draft_run import carry_out
from talkahead.drafting.drafters import drafter_names
from talkahead.serving.talker_server import TalkerServer
from talkahead.types import Stats
from test_talker_server import segment, speak, spoken


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(draft_run, "NODES", (2, 4, 8))
    repository = write_repository(tmp_path / "repository")
    order = DraftOrder(repository, repository / "texts.txt", minutes=0.2, block_size=64, steps=60, rate=0.01)
    carry_out([order], print)
    return repository


def test_trained_heads_are_followed_in_a_server(
    trained: Path, backend: FakeBackend, config_of: Callable[..., ModelConfig]
) -> None:
    server = TalkerServer(backend, config_of("talker", trained, slots="2", drafter="auto"))
    try:
        drafted = speak(server, segment(drafter="heads", pin_draft=True, nodes=4))
        plain = speak(server, segment(drafter="none"))
    finally:
        server.close()
    assert spoken(drafted) == spoken(plain)
    stats = Stats.from_array(drafted.sender.responses[-1].tensors["STATS"])
    assert drafter_names()[stats.drafter] == "heads"
    assert stats.frames > 1.5 * stats.target_steps
