"""Costs are found again under the conditions that they were measured in, and under no others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from replayed import Replayed
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.backbone.slot_decoder import SlotDecoder
from talkahead.config import ModelConfig
from talkahead.cpu_path import cpu_path
from talkahead.engine.step_costs import StepCost, StepCosts
from talkahead.serving import cost_store
from talkahead.serving.cost_store import (
    Conditions,
    latest_costs,
    machine_hash,
    read_costs,
    weights_hash,
    write_costs,
)

COSTS = StepCosts((StepCost("none", 1, 1, 0.001), StepCost("heads", 2, 1, 0.0015, 0.02)), (0, 0, 1152))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def folders() -> Iterator[Path]:
        yield tmp_path / "not there"
        yield tmp_path

    monkeypatch.setattr(cost_store, "cache_folders", folders)
    return tmp_path


@pytest.fixture
def conditions(repository: Path) -> Conditions:
    talker = repository / "talker" / "1"
    return Conditions(
        machine_hash(),
        cpu_path(),
        "cpu",
        "bfloat16",
        "NativeDecoder",
        1,
        16,
        weights_hash(talker),
        "c0de",
        "2",
    )


def test_what_is_written_is_read(kept: Path, conditions: Conditions) -> None:
    assert read_costs(conditions) is None
    write_costs(conditions, COSTS)
    assert read_costs(conditions) == COSTS
    assert [path.name for path in kept.iterdir()] == [conditions.file_name]


@pytest.mark.parametrize(
    "change",
    [
        {"code": "other"},
        {"dtype": "int8"},
        {"threads": 2},
        {"path": "generic"},
        {"weights": "w"},
        {"slots": 1},
    ],
)
def test_other_conditions_are_other_costs(
    kept: Path, conditions: Conditions, change: dict[str, object]
) -> None:
    write_costs(conditions, COSTS)
    assert read_costs(replace(conditions, **change)) is None  # type: ignore[arg-type]


def test_what_a_busy_machine_has_measured_is_kept_for_a_while(kept: Path, conditions: Conditions) -> None:
    busy = StepCosts(tuple(replace(one, spread=0.5) for one in COSTS.measured))
    assert not busy.is_steady
    write_costs(conditions, busy)
    assert read_costs(conditions) == busy
    ago = time.time() - cost_store.BUSY_KEPT_S
    os.utime(kept / conditions.file_name, (ago, ago))
    assert read_costs(conditions) is None
    write_costs(conditions, COSTS)
    os.utime(kept / conditions.file_name, (ago, ago))
    assert read_costs(conditions) == COSTS


@pytest.mark.parametrize("text", ["", "{}", '{"costs": [1]}', '{"costs": [{"rows": 1}]}'])
def test_what_cannot_be_read_is_measured_again(kept: Path, conditions: Conditions, text: str) -> None:
    (kept / conditions.file_name).write_text(text)
    assert read_costs(conditions) is None


def test_the_doctor_finds_those_of_this_machine_and_talker(
    kept: Path, conditions: Conditions, repository: Path
) -> None:
    talker = repository / "talker" / "1"
    write_costs(replace(conditions, machine="another"), COSTS)
    write_costs(replace(conditions, weights="other"), COSTS)
    assert latest_costs(talker) is None
    write_costs(conditions, COSTS)
    assert latest_costs(talker) == (COSTS, conditions)


def test_weights_are_told_apart(repository: Path, drafting_repository: Path) -> None:
    plain, drafting = (folder / "talker" / "1" for folder in (repository, drafting_repository))
    assert weights_hash(plain) != weights_hash(drafting)


def test_costs_of_a_devices_own_ways_are_their_own(config_of: Callable[..., ModelConfig]) -> None:
    torch.manual_seed(0)
    shape = DecoderConfig(20, 19, 32, 48, 1, 2, 1, 16)
    state = Llama(shape).requires_grad_(False).state_dict()

    def named(graphs: Replayed | None) -> str:
        decoder = SlotDecoder(shape, state, num_slots=2, max_positions=8, graphs=graphs)
        return Conditions.of(config_of("talker"), decoder).decoder

    assert (named(None), named(Replayed())) == ("SlotDecoder", "SlotDecoder graphs")
