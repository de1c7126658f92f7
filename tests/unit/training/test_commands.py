"""`python -m training`: the commands that it runs are ones that there are, with options that they take."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from talkahead.manifest import sha256

import build_engines.__main__ as engines
from build_engines import calibrate
from instruments.recipes import RECIPES, SHIPPED, TALKERS
from training import __main__ as training
from training import (
    code_corpus,
    export,
    export_drafts,
    train_drafts,
    train_spectral_codec,
    train_talker,
    tune_base,
)

Command = list[str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    codec = tmp_path / "models" / "vocoder" / "1" / "codec.safetensors"
    codec.parent.mkdir(parents=True)
    codec.write_bytes(b"codec")
    return tmp_path / "models"


@pytest.fixture
def run(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    def run(*arguments: str) -> list[Command]:
        found: list[Command] = []

        def note(words: Sequence[str], *, check: bool) -> None:
            assert check and words[1] == "-m"
            found.append(list(words[2:]))

        monkeypatch.setattr(subprocess, "run", note)
        folder = repository.parent / "build"
        training.main(["--build", str(folder), "--repository", str(repository), *arguments])
        return found

    return run


def heard(module: Any, name: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:  # noqa: ANN401
    """What a command's work is told."""
    told: list[argparse.Namespace] = []
    monkeypatch.setattr(module, name, told.append)
    monkeypatch.setattr(sys, "argv", command)
    (engines if command[0] == "build_engines" else module).main()
    return told[0]


def test_everything_is_made_in_order(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    commands = run()
    assert [command[0].removeprefix("training.") for command in commands] == [
        *("spectral_corpus", "train_spectral_codec", "code_corpus", "train_talker", "export"),
        *(["talkahead"] * len(SHIPPED)),
        "build_engines",
    ]
    codec = heard(train_spectral_codec, "train", commands[1], monkeypatch)
    assert codec.code_steps == codec.steps // 2
    talker = heard(train_talker, "train", commands[3], monkeypatch)
    assert talker.codec.parent == talker.out == codec.out
    assert talker.dataset == heard(calibrate, "run", commands[-1], monkeypatch).dataset
    trained = [command[command.index("--drafter") + 1] for command in commands[5:-1]]
    assert tuple(trained) == SHIPPED


def test_each_recipe_is_one_command(run: Any, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    commands = run("--recipe", *RECIPES, *TALKERS)
    by_name = [command[0] for command in commands]
    assert by_name == [
        *("training.code_corpus", "training.train_drafts", "training.export_drafts"),
        *("build_engines", "training.tune_base", "build_engines", "training.train_talker", "training.export"),
    ]
    learned = heard(train_drafts, "train", commands[1], monkeypatch)
    assert learned.recipe == list(RECIPES.values()) and learned.trial == {}
    counted = heard(calibrate, "run", commands[3], monkeypatch)
    assert counted.heads == ["heads", "heads-6", "heads-blind"]
    tuned = heard(tune_base, "train", commands[4], monkeypatch)
    assert tuned.steps == TALKERS["tuned"] and tuned.repository == repository
    assert heard(calibrate, "run", commands[5], monkeypatch).repository == tuned.out
    smaller = heard(train_talker, "train", commands[6], monkeypatch)
    assert (smaller.layers, smaller.steps, smaller.start) == (9, TALKERS["smaller"], repository)
    assert commands[7][commands[7].index("--training") + 1] == str(smaller.out)
    assert all(hasattr(module, "main") for module in (code_corpus, export, export_drafts))
    read = {str(one.dataset) for one in (learned, counted, tuned, smaller)}
    assert read == {commands[0][commands[0].index("--out") + 1]}


def test_speech_that_has_been_read_is_not_read_again(run: Any, repository: Path) -> None:  # noqa: ANN401
    codec = sha256(repository / "vocoder" / "1" / "codec.safetensors")
    known = repository.parent / "build" / "training" / f"dataset-{codec[:12]}.npz"
    known.parent.mkdir(parents=True)
    known.write_bytes(b"")
    assert [command[0] for command in run("--recipe", "mtp-blind")] == [
        "training.train_drafts",
        "training.export_drafts",
    ]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_manifests_of_what_is_shipped_name_what_makes_it(name: str) -> None:
    folder = Path(__file__).parents[3] / "model_repository" / "talker" / "1" / "drafts" / name
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["command"] == f"talkahead drafts train --drafter {name}"
    assert manifest["steps"] > 0
