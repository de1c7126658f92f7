"""`build_engines calibrate` on a talker of a few weights: drafters and verifiers load what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import SamplingDefaults
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.group_artifact import load_groups
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.generation_config import write_sampling
from talkahead.manifest import Manifest, sha256
from talkahead.speculation.similarity_groups import SimilarityGroups
from talkahead.text.symbols import NUM_SYMBOLS

from build_engines.__main__ import main

WIDTH, EOS = 16, 24


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    encoder = TextEncoder(TextEncoderConfig(("one", "two"), NUM_SYMBOLS, width=WIDTH, heads=2))
    encoder.save(tmp_path / "encoder" / "1")
    llama = Llama(DecoderConfig(EOS + 1, EOS, WIDTH, 32, 2, 1, 1, 16)).to(torch.bfloat16)
    talker = tmp_path / "talker" / "1"
    llama.save(talker)
    write_sampling(SamplingDefaults(), talker)
    heads = DraftHeads.beginning_as(llama.lm_head.weight, 3, llama.model.embed_tokens.weight)
    heads = heads.to(torch.bfloat16)
    folder = talker / "drafts" / "heads"
    Draft("heads", heads, target_hash(talker)).save(folder)
    Manifest("", "", "", 0, {}, {WEIGHTS: sha256(folder / WEIGHTS)}, "").write(folder)
    return tmp_path


def test_trees_and_groups_are_written_for_this_talker(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = repository / "texts.txt"
    texts.write_text("Good morning.\n\nWhere are you?\n")
    arguments = ["--repository", str(repository), "--texts", str(texts), "--nodes", "4", "9"]
    assert main(["calibrate", *arguments, "--mean-sizes", "1.5", "4", "--count", "3"]) == 0
    talker = repository / "talker" / "1"
    folder = talker / "drafts" / "heads"

    trees = CalibratedTrees.read(folder, sha256(folder / WEIGHTS))
    assert [one.nodes for one in trees.trees] == [4, 9]
    assert 1.0 < trees.trees[0].committed_per_step < trees.trees[1].committed_per_step
    tolerant = trees.of_trials(3)
    assert [one.nodes for one in tolerant] == [4, 9]
    assert all(
        more.committed_per_step > one.committed_per_step
        for one, more in zip(trees.trees, tolerant, strict=True)
    )
    assert trees.of_trials(2) == trees.trees and trees.of_trials(5) == tolerant
    Manifest.read(folder).verify(folder)

    counted = Acceptance.read(folder)
    assert counted is not None and list(counted.committed_per_step) == [4, 9]
    assert 1.0 < counted.of(4) < counted.of(9) == counted.of(20) and counted.of(3) == 1.0

    groups = load_groups(talker / "groups", talker)
    embeddings = Llama.load(talker).model.embed_tokens.weight
    for threshold, one in groups.items():
        assert torch.equal(one.members, SimilarityGroups.of(embeddings, threshold, [EOS]).members)
    manifest = Manifest.read(talker / "groups")
    manifest.verify(talker / "groups")
    assert manifest.target == target_hash(talker)
    assert capsys.readouterr().out.count("calibrate: ") == 7
