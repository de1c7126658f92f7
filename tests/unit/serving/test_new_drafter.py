"""A drafter that nobody has heard of: entered in one place, it is asked for and drafts on a server."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_backend import FakeBackend
from talkahead.config import ModelConfig, RequestOptions
from talkahead.drafting.draft_artifact import Draft, load_drafter, target_hash
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.draft_sizes import cascade_sizes
from talkahead.drafting.drafters import DRAFTERS, DrafterSpec, drafter_names, verifiers_of
from talkahead.drafting.offer import read_offer
from talkahead.drafting.selection import select
from talkahead.errors import ArtifactMismatch, BadRequest
from talkahead.manifest import Manifest, sha256
from talkahead.serving.talker_server import TalkerServer
from talkahead.speculation.contracts import Context
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.pairs import Pair
from talkahead.speculation.token_tree import TokenTree, chain_of
from talkahead.speculation.verifiers import VERIFIERS
from talkahead.types import Stats
from test_talker_server import segment, speak, spoken
from torch import Tensor, nn

LONGEST = 3


class Shifts(nn.Module):
    """What is added to the last token, one step after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.shifts = nn.Parameter(torch.zeros(count))


class EchoDrafter(NullDrafter):
    """Says the last token again and again, shifted."""

    def __init__(self, shifts: Tensor) -> None:
        self._shifts = shifts.to(torch.int64)

    def propose(self, context: Context) -> TokenTree:
        length = context.draft_request.length(len(self._shifts))
        drafted = context.roots + self._shifts[:length].cumsum(0)
        return TokenTree(torch.cat([context.roots, drafted], dim=1)[..., None], chain_of(length))


class EchoKind:
    def network(self, config: Mapping[str, Any], path: Path, talker: Path) -> Shifts:
        return Shifts(config["num_modules"])

    def config(self, network: Shifts) -> dict[str, Any]:
        return {"num_modules": len(network.shifts)}

    def drafter(
        self, network: Shifts, folder: Path, talker: Path, pool: DraftPool, options: DraftOptions
    ) -> EchoDrafter:
        return EchoDrafter(network.shifts)


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its one entry, taken out afterwards."""
    spec = DrafterSpec("echo", f"{__name__}:EchoKind", cascade_sizes)
    monkeypatch.setitem(DRAFTERS, spec.name, spec)
    yield spec.name


@pytest.fixture
def with_echo(echo: str, drafting_repository: Path, tmp_path: Path) -> Path:
    """A repository where it lies beside the talker."""
    shutil.copytree(drafting_repository, tmp_path / "repository")
    talker = tmp_path / "repository" / "talker" / "1"
    folder = draft_folder(talker, echo)
    Draft(echo, Shifts(LONGEST), target_hash(talker)).save(folder)
    files = {path.name: sha256(path) for path in folder.iterdir()}
    Manifest("a test", "unknown", "none", 0, {}, files, "Apache-2.0", target_hash(talker)).write(folder)
    return tmp_path / "repository"


def test_a_request_names_it(echo: str, with_echo: Path) -> None:
    offer = read_offer(with_echo / "talker" / "1")
    assert offer.names == drafter_names() == ("none", "heads", "mtp", "draft_lm", "echo")

    def chosen(**parameters: str | int) -> tuple[Pair, int]:
        selection = select(RequestOptions.from_parameters(parameters), offer)
        return selection.pair, selection.nodes

    assert chosen(drafter="echo") == (Pair("echo", "match"), LONGEST + 1)
    assert chosen(drafter="echo", draft_length=1) == (Pair("echo", "match"), 2)
    assert chosen(drafter="echo", tolerance=2) == (Pair("echo", "tolerance"), LONGEST + 1)
    assert verifiers_of("echo") == ("match", "tolerance", "topk")
    with pytest.raises(BadRequest, match=r"^draft_length: 4 .* from 1 to 3 with drafter echo"):
        chosen(drafter="echo", draft_length=4)
    with pytest.raises(BadRequest, match=r"^nodes: 8 .* it belongs to heads; leave it out"):
        chosen(drafter="echo", nodes=8)


def test_a_server_drafts_with_it(
    with_echo: Path, backend: FakeBackend, config_of: Callable[..., ModelConfig]
) -> None:
    """What is said is plain decoding's; STATS name it."""
    server = TalkerServer(backend, config_of("talker", with_echo, slots="2"))
    prompt = np.ones((4, 32), np.float32)
    asked: list[dict[str, object]] = [{}, {"drafter": "echo", "pin_draft": True}]
    plain, drafted = (
        speak(server, segment(stream, prompt=prompt, max_seconds=0.6, **options))
        for stream, options in enumerate(asked)
    )
    server.close()
    assert spoken(drafted) == spoken(plain)
    stats = Stats.from_array(drafted.sender.responses[-1].tensors["STATS"])
    assert (drafter_names()[stats.drafter], list(VERIFIERS)[stats.verifier]) == ("echo", "match")
    assert stats.drafted == LONGEST * stats.target_steps > 0


def test_without_its_entry_it_is_unknown(with_echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talker = with_echo / "talker" / "1"
    folder = draft_folder(talker, "echo")
    assert isinstance(load_drafter(folder, talker, DraftPool(2, 60)), EchoDrafter)
    monkeypatch.delitem(DRAFTERS, "echo")
    assert "echo" not in read_offer(talker).names
    with pytest.raises(ArtifactMismatch, match=r"kind 'echo' is not known; known: heads, mtp, draft_lm"):
        load_drafter(folder, talker, DraftPool(2, 60))
