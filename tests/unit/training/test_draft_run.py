"""A run of `training.train_drafts` on a few utterances goes on where it stopped, and its drafts export.

So does one of `training.tune_base`, which makes another talker and its heads.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.backbone.llama import Llama, LlamaConfig
from talkahead.backbone.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, DraftKind, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import Manifest

from training import export_drafts, train_drafts, tune_base

WIDTH, EOS = 16, 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    encoder = TextEncoder(TextEncoderConfig(("one",), num_symbols=9, width=WIDTH, heads=2))
    encoder.save(tmp_path / "models" / "encoder" / "1")
    talker = Llama(LlamaConfig(EOS + 1, EOS, WIDTH, 32, 2, 1, 1, 16)).to(torch.bfloat16)
    talker.save(tmp_path / "models" / "talker" / "1")
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


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int, *names: str) -> None:
    words = [
        "--repository",
        folder / "models",
        "--dataset",
        folder / "dataset.npz",
        "--out",
        folder / "drafts",
    ]
    words += ["--steps", steps, "--tokens", 200, "--texts", 2, "--measured", 2, "--kind", *names]
    monkeypatch.setattr(sys, "argv", ["train_drafts", *map(str, words)])
    monkeypatch.setattr(train_drafts, "compile_layers", lambda network: None)  # takes longer than the run
    train_drafts.main()


def test_a_run_goes_on_where_it_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, monkeypatch, 2, "heads-2", "mtp-1")
    said = capsys.readouterr().out
    assert "heads-2: step 2/2, held-out" in said and "tokens a step" in said
    talker = folder / "models" / "talker" / "1"
    before = Draft.load(folder / "drafts" / "heads-2", talker).network.state_dict()
    run(folder, monkeypatch, 4, "heads-2", "mtp-1", "draft_lm-1")
    said = capsys.readouterr().out
    # A newcomer is brought up to the others first, which wait at their second step.
    assert "draft_lm-1: step 2/4" in said and "heads-2: step 2/4" not in said
    assert all(f"{name}: step 4/4" in said for name in ("heads-2", "mtp-1", "draft_lm-1"))
    after = Draft.load(folder / "drafts" / "heads-2", talker).network.state_dict()
    assert any(not torch.equal(before[name], value) for name, value in after.items())

    exported = export_drafts.put(folder / "drafts" / "draft_lm-1", talker, "nothing")
    manifest = Manifest.read(exported)
    manifest.verify(exported)
    assert manifest.target == target_hash(talker)
    assert manifest.command.endswith("--kind draft_lm-1")
    assert manifest.metrics["held_out_tokens_per_step"] >= 1.0
    Llama(LlamaConfig(EOS + 1, EOS, WIDTH, 32, 2, 1, 1, 16)).save(talker)
    with pytest.raises(ArtifactMismatch, match="train_drafts --kind draft_lm-1"):
        export_drafts.put(folder / "drafts" / "draft_lm-1", talker, "nothing")


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
    Draft(DraftKind.HEADS, heads, target_hash(talker)).save(talker / "drafts" / "heads")
    before = (talker / WEIGHTS).read_bytes()
    tune(folder, monkeypatch, 2, folder / "tuned")
    first = Llama.load(tuned).state_dict()
    tune(folder, monkeypatch, 4, folder / "tuned")
    learned = Llama.load(tuned).state_dict()
    assert any(not torch.equal(first[name], value) for name, value in learned.items())
    drafted = Draft.load(tuned / "drafts" / "heads", tuned).network.state_dict()
    assert any(not torch.equal(drafted[name], value) for name, value in heads.state_dict().items())
    assert (talker / WEIGHTS).read_bytes() == before  # the shipped talker stays as it was
