"""A training of a talker that is stopped half-way goes on where it was, or says why it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.draft_training.training_state import TrainingState
from talkahead.families.phonemic.spectral_decoder import CONFIG_FILE, SpectralConfig
from talkahead.families.phonemic.text_encoder import TextEncoder

from training import train_talker

CODEC = SpectralConfig(sound_levels=(3, 2), prosody_levels=(2,))
UTTERANCES = 24
SHAPE = ["--layers", "3", "--width", "32", "--intermediate", "48", "--head-dim", "16", "--tokens", "600"]


class Stopped(BaseException):
    """As if the machine had gone."""


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """Layers this small are compiled for longer than they learn."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a training of 50 steps, with all that it reads; every 25 are kept."""
    monkeypatch.setattr(train_talker, "_KEPT_EVERY", 25)
    draw = np.random.default_rng(0)
    num_symbols, num_frames = (draw.integers(4, 12, UTTERANCES) for _ in range(2))
    np.savez(
        tmp_path / "dataset.npz",
        voice_names=np.array(["heart"]),
        symbols=draw.integers(0, 8, (num_symbols.sum(), 4)).astype(np.int16),
        frames=draw.integers(0, 12, num_frames.sum()).astype(np.int16),
        spoken=np.concatenate([np.arange(count) % 4 for count in num_frames]).astype(np.int16),
        voices=np.zeros(UTTERANCES, np.int64),
        num_symbols=num_symbols,
        num_frames=num_frames,
        splits=np.array(["train"] * (UTTERANCES - 4) + ["development"] * 4),
    )
    (tmp_path / CONFIG_FILE).write_text(json.dumps(asdict(CODEC)))
    paths = ["--dataset", str(tmp_path / "dataset.npz"), "--codec", str(tmp_path), "--out", str(tmp_path)]
    return [*paths, *SHAPE, "--steps", "50"]


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amid the writing of that step's state."""
    save = torch.save

    def torn(state: dict[str, int], path: Path) -> None:
        save(state, path)
        if state["step"] == step:
            path.write_bytes(path.read_bytes()[:100])
            raise Stopped

    monkeypatch.setattr(torch, "save", torn)


def test_it_goes_on_where_it_was_stopped(
    begun: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as torn, pytest.raises(Stopped):
        stop_at(50, torn)
        train_talker.main(begun)
    report = tmp_path / "talker.report.json"
    assert json.loads(report.read_text())["steps"] == 25, "what is served is of the last whole state"
    TextEncoder.load(tmp_path / "encoder")
    before = capsys.readouterr().out
    train_talker.main(begun)
    after = capsys.readouterr().out
    assert "step 25/50" in before and "step 25/50" not in after
    assert "step 50/50" in after and json.loads(report.read_text())["steps"] == 50


def test_a_state_of_another_shape_is_refused_and_kept(begun: list[str], tmp_path: Path) -> None:
    train_talker.main([*begun, "--steps", "1"])
    state = (tmp_path / "talker.pt").read_bytes()
    with pytest.raises(SystemExit, match=r"talker\.pt is of a training of another shape"):
        train_talker.main([*begun, "--width", "64"])
    assert (tmp_path / "talker.pt").read_bytes() == state


def test_a_dataset_that_was_not_made_is_named(begun: list[str], tmp_path: Path) -> None:
    (tmp_path / "dataset.npz").unlink()
    with pytest.raises(SystemExit, match=r"dataset\.npz is missing; make it: python -m training.code_corpus"):
        train_talker.main(begun)


def test_a_state_whose_optimisers_are_others_is_refused(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    TrainingState(tmp_path / "own.pt", module, torch.optim.AdamW(module.parameters())).save(3)
    with pytest.raises(Exception, match="another shape"):
        TrainingState(tmp_path / "own.pt", module).resume()
