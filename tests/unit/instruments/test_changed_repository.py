"""A repository of links, in which parameters of its models are others."""

from __future__ import annotations

from pathlib import Path

import pytest
from talkahead.config import parameters_of

from instruments.changed_repository import changed_repository

SLOTS = 'parameters { key: "slots" value { string_value: "16" } }\n'


@pytest.fixture
def real(tmp_path: Path) -> Path:
    for model in ("vocoder", "talker"):
        (tmp_path / "real" / model / "1").mkdir(parents=True)
        config = f"max_batch_size: 1\n{SLOTS}instance_group [{{ count: 1 }}]\n"
        (tmp_path / "real" / model / "config.pbtxt").write_text(config)
        (tmp_path / "real" / model / "1" / "model.py").touch()
    return tmp_path / "real"


def test_parameters_are_changed_in_their_place_and_new_ones_added(real: Path, tmp_path: Path) -> None:
    changes = {"talker.slots": "1", "talker.drafter": "none"}
    made = changed_repository(real, tmp_path / "made", changes)
    assert parameters_of(made / "talker") == {"slots": "1", "drafter": "none"}
    config = (made / "talker" / "config.pbtxt").read_text()
    assert config.startswith("max_batch_size: 1\nparameters") and config.count("slots") == 1
    assert (made / "talker" / "1" / "model.py").exists()


def test_all_else_is_as_it_was(real: Path, tmp_path: Path) -> None:
    made = changed_repository(real, tmp_path / "made", {"talker.slots": "1"})
    assert (made / "vocoder").resolve() == (real / "vocoder").resolve()
    assert parameters_of(real / "talker") == {"slots": "16"}


def test_what_triton_hands_over_at_a_time_is_no_parameter(real: Path, tmp_path: Path) -> None:
    made = changed_repository(real, tmp_path / "made", {"talker.max_batch_size": "4", "talker.slots": "1"})
    config = (made / "talker" / "config.pbtxt").read_text()
    assert config.startswith("max_batch_size: 4\n") and parameters_of(made / "talker") == {"slots": "1"}


@pytest.mark.parametrize("place", ["singer.slots", "talker", "slots"])
def test_what_no_model_has_is_refused(place: str, real: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is no parameter; allowed: MODEL.NAME of talker, vocoder"):
        changed_repository(real, tmp_path / "made", {place: "1"})
    assert not (tmp_path / "made").exists()
