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
from talkahead.draft_training.draft_order import DraftOrder
from talkahead.draft_training.draft_shape import DraftShape
from talkahead.launcher import command as launcher
from talkahead.launcher import drafts_command
from talkahead.manifest import sha256

import build_engines.__main__ as engines
from build_engines import calibrate
from instruments.recipes import DRAFTS, MINUTES, SHIPPED, STEPS, TALKERS
from training import __main__ as training
from training import train_spectral_codec, train_talker

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


def ordered(command: Command) -> list[DraftOrder]:
    """What `talkahead drafts train` is asked for."""
    return drafts_command.orders_of(launcher.make_parser().parse_args(command[1:]))


def test_everything_is_made_in_order(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    commands = run()
    assert [command[0].removeprefix("training.") for command in commands] == [
        *("spectral_corpus", "train_spectral_codec", "code_corpus", "train_talker", "export", "draft_texts"),
        *("talkahead", "build_engines"),
    ]
    codec = heard(train_spectral_codec, "train", commands[1], monkeypatch)
    assert codec.code_steps == codec.steps // 2
    talker = heard(train_talker, "train", commands[3], monkeypatch)
    assert talker.codec.parent == talker.out == codec.out
    assert talker.dataset == heard(calibrate, "run", commands[-1], monkeypatch).dataset
    orders = ordered(commands[6])
    assert tuple(order.name for order in orders) == SHIPPED
    assert {str(order.texts) for order in orders} == {commands[5][commands[5].index("--out") + 1]}


@pytest.mark.parametrize("name", DRAFTS)
def test_each_draft_is_one_command(
    run: Any,  # noqa: ANN401
    repository: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, command, *others = run("--recipe", name)
    counted = [heard(calibrate, "run", one, monkeypatch).heads for one in others if one[0] == "build_engines"]
    assert counted == ([[name]] if DraftShape.of(name).drafter == "heads" else [])
    (order,) = ordered(command)
    assert order.shape.size == DraftShape.of(name).size
    assert order.shape.sees_tokens is DraftShape.of(name).sees_tokens
    assert order.destination == repository / "talker" / "1" / "drafts" / name
    assert order.replaces and (order.minutes, order.steps) == (MINUTES, STEPS)


def test_each_talker_is_made_from_the_shipped_one(
    run: Any,  # noqa: ANN401
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = run("--recipe", *TALKERS)
    assert [command[0].removeprefix("training.") for command in commands] == [
        *("draft_texts", "code_corpus", "train_talker", "export", "export", "talkahead", "build_engines"),
        *("train_talker", "export"),
    ]
    tuned, smaller = (heard(train_talker, "train", commands[at], monkeypatch) for at in (2, 7))
    assert (tuned.heads, tuned.steps, tuned.start) == (4, TALKERS["tuned"], repository)
    assert (smaller.layers, smaller.steps, smaller.start) == (9, TALKERS["smaller"], repository)
    read = {str(one.dataset) for one in (tuned, smaller)}
    assert read == {commands[1][commands[1].index("--out") + 1]}
    exported = [commands[at][commands[at].index("--training") + 1] for at in (3, 8)]
    assert exported == [str(tuned.out), str(smaller.out)]
    (heads,) = ordered(commands[5])
    counted = heard(calibrate, "run", commands[6], monkeypatch)
    assert counted.heads == ["heads"] and counted.repository == heads.repository
    assert str(counted.dataset) in read
    assert heads.start == tuned.out / "heads" and heads.repository == repository.parent / "build" / "tuned"


def test_speech_that_has_been_read_is_not_read_again(run: Any, repository: Path) -> None:  # noqa: ANN401
    codec = sha256(repository / "vocoder" / "1" / "codec.safetensors")
    known = repository.parent / "build" / "training" / f"dataset-{codec[:12]}.npz"
    known.parent.mkdir(parents=True)
    known.write_bytes(b"")
    commands = run("--recipe", "smaller")
    assert [command[0] for command in commands] == ["training.train_talker", "training.export"]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_manifests_of_what_is_shipped_name_what_makes_it(name: str) -> None:
    folder = Path(__file__).parents[3] / "model_repository" / "talker" / "1" / "drafts" / name
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["command"] == f"talkahead drafts train --drafter {name}"
    assert manifest["steps"] > 0
