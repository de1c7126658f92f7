"""A run of `training.train_drafts` on a few utterances goes on where it stopped, and its drafts export.

So does one of `training.tune_base`, which makes another talker and its heads.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import SamplingDefaults
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.errors import ArtifactMismatch
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.generation_config import write_sampling
from talkahead.manifest import Manifest

from instruments.recipes import RECIPES
from training import export_drafts, train_drafts, tune_base

WIDTH, EOS = 16, 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    encoder = TextEncoder(TextEncoderConfig(("one",), num_symbols=9, width=WIDTH, heads=2))
    encoder.save(tmp_path / "models" / "encoder" / "1")
    talker = Llama(DecoderConfig(EOS + 1, EOS, WIDTH, 32, 2, 1, 1, 16)).to(torch.bfloat16)
    talker.save(tmp_path / "models" / "talker" / "1")
    write_sampling(SamplingDefaults(), tmp_path / "models" / "talker" / "1")
    draw = np.random.default_rng(0)
    num_symbols, num_frames = draw.integers(3, 9, 24), draw.integers(4, 20, 24)
    np.savez(
        tmp_path / "dataset.npz",
        symbols=draw.integers(0, 8, (num_symbols.sum(), 4)).astype(np.int16),
        frames=draw.integers(0, EOS, num_frames.sum()).astype(np.int16),
        spoken=np.zeros(num_frames.sum(), np.int16),
        num_symbols=num_symbols,
        num_frames=num_frames,
        voices=np.zeros(24, np.int64),
        splits=np.array(["train", "development", "calibration"] * 8),
        voice_names=np.array(["one"]),
    )
    return tmp_path


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], *more: str) -> None:
    """Four steps of each recipe, or what `more` says."""
    words = [
        "--repository",
        folder / "models",
        "--dataset",
        folder / "dataset.npz",
        "--out",
        folder / "drafts",
    ]
    words += ["--steps", 4, "--tokens", 200, "--texts", 2, "--measured", 2, "--recipe", *names, *more]
    monkeypatch.setattr(sys, "argv", ["train_drafts", *map(str, words)])
    monkeypatch.setattr(train_drafts, "compile_layers", lambda network: None)  # takes longer than the run
    train_drafts.main()


def test_a_run_goes_on_where_it_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, monkeypatch, ["heads", "mtp-1"], "--until", "2")
    said = capsys.readouterr().out
    assert "heads: step 2/4, held-out" in said and "tokens a step" in said
    talker = folder / "models" / "talker" / "1"
    before = Draft.load(folder / "drafts" / "heads", talker).network.state_dict()
    run(folder, monkeypatch, ["heads", "mtp-1", "draft_lm-1"])
    said = capsys.readouterr().out
    # A newcomer is brought up to the others first, which wait at their second step.
    assert "draft_lm-1: step 2/4" in said and "heads: step 2/4" not in said
    assert all(f"{name}: step 4/4" in said for name in ("heads", "mtp-1", "draft_lm-1"))
    after = Draft.load(folder / "drafts" / "heads", talker).network.state_dict()
    assert any(not torch.equal(before[name], value) for name, value in after.items())


def test_a_run_in_parts_is_the_run_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the texts that it meets: each part begins a pass over them."""
    monkeypatch.setattr(
        train_drafts, "_endless", lambda dataset, tokens, seed: repeat(next(dataset.batches(tokens, 0)))
    )
    run(folder, monkeypatch, ["mtp-blind"])
    whole = (folder / "drafts" / "mtp-blind" / WEIGHTS).read_bytes()
    shutil.rmtree(folder / "drafts")
    for until in ("1", "3", "4"):
        run(folder, monkeypatch, ["mtp-blind"], "--until", until)
    assert (folder / "drafts" / "mtp-blind" / WEIGHTS).read_bytes() == whole


def test_what_has_begun_by_one_recipe_does_not_go_on_by_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, monkeypatch, ["mtp-1"], "--until", "2")
    with pytest.raises(SystemExit, match=r"mtp-1: .*was begun .*: 4 steps of .*80% of the loss.*Remove it"):
        run(folder, monkeypatch, ["mtp-1"], "--steps", "6")
    Llama(DecoderConfig(EOS + 1, EOS, WIDTH, 32, 2, 1, 1, 16)).save(folder / "models" / "talker" / "1")
    with pytest.raises(SystemExit, match="was begun for the talker"):
        run(folder, monkeypatch, ["mtp-1"])


def test_an_exported_draft_tells_how_it_was_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder, monkeypatch, ["heads", "draft_lm-1"], "--until", "3")
    talker, drafts = folder / "models" / "talker" / "1", folder / "drafts"
    exported = export_drafts.put(drafts / "heads", talker, "Nothing else.")
    manifest = Manifest.read(exported)
    manifest.verify(exported)
    assert manifest.target == target_hash(talker)
    assert manifest.command == "python -m training.train_drafts --recipe heads --steps 4 --tokens 200"
    assert manifest.data == (
        "What the talker was trained on. 4 steps of 6,000 positions at a peak rate of 0.0012; 80% of the "
        "loss the talker's own distribution; the first of heads-6. It was stopped after 3 of them. "
        "Nothing else."
    )
    assert manifest.steps == 3 and manifest.metrics["held_out_tokens_per_step"] >= 1.0
    heads = Draft.load(exported, talker).network
    assert isinstance(heads, DraftHeads) and len(heads) == 4
    Llama(DecoderConfig(EOS + 1, EOS, WIDTH, 32, 2, 1, 1, 16)).save(talker)
    with pytest.raises(ArtifactMismatch, match="python -m training --recipe draft_lm-1"):
        export_drafts.put(drafts / "draft_lm-1", talker, "")


def test_a_draft_of_its_whole_recipe_names_one_command() -> None:
    report = {
        "recipe": asdict(RECIPES["mtp"]),
        "trial": {},
        "began_as": "f" * 64,
        "steps": RECIPES["mtp"].steps,
    }
    assert export_drafts.command_of(report) == "python -m training --recipe mtp"
    assert export_drafts.history(report).endswith(
        "It began as the draft whose weights' hash is ffffffffffff."
    )


def tune(folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int, out: Path) -> None:
    words = ["--repository", folder / "models", "--dataset", folder / "dataset.npz", "--out", out]
    monkeypatch.setattr(
        sys, "argv", ["tune_base", *map(str, words), "--steps", str(steps), "--tokens", "200"]
    )
    monkeypatch.setattr(tune_base, "compile_layers", lambda network: None)
    tune_base.main()


def test_a_base_learns_on_with_its_heads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talker, tuned = folder / "models" / "talker" / "1", folder / "tuned" / "talker" / "1"
    llama = Llama.load(talker)
    heads = DraftHeads.beginning_as(llama.lm_head.weight, 2, llama.model.embed_tokens.weight)
    Draft("heads", heads, target_hash(talker)).save(talker / "drafts" / "heads")
    before = (talker / WEIGHTS).read_bytes()
    tune(folder, monkeypatch, 2, folder / "tuned")
    first = Llama.load(tuned).state_dict()
    tune(folder, monkeypatch, 4, folder / "tuned")
    learned = Llama.load(tuned).state_dict()
    assert any(not torch.equal(first[name], value) for name, value in learned.items())
    drafted = Draft.load(tuned / "drafts" / "heads", tuned).network.state_dict()
    assert any(not torch.equal(drafted[name], value) for name, value in heads.state_dict().items())
    assert (talker / WEIGHTS).read_bytes() == before  # the shipped talker stays as it was
