"""A draft is loaded as it was saved, for its own talker alone, and serves from there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from talkahead.backbone import native_decoder
from talkahead.backbone.decoder_choice import DecoderChoice
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.backbone.native_matrix import INT4
from talkahead.config import RequestOptions
from talkahead.drafting.calibrated_trees import CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, load_drafter, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.draft_pool import DraftOptions, DraftPool
from talkahead.drafting.group_artifact import WEIGHTS as GROUPS_FILE
from talkahead.drafting.group_artifact import group_tokens, load_groups, save_groups
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.drafting.rank_paths import RankPaths
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.errors import ArtifactMismatch
from talkahead.manifest import sha256
from talkahead.speculation.contracts import Drafter
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.similarity_groups import SimilarityGroups
from tiny_talker import CONFIG, make_cut, make_llama

ROWS, POSITIONS, STEPS = 5, 60, 6
NETWORKS = ("heads", "draft_lm", "mtp", "mtp without tokens")


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talker")
    make_llama().to(torch.bfloat16).save(folder)
    return folder


def make_draft(name: str, talker: Path) -> Draft:
    llama = Llama.load(talker)
    torch.manual_seed(7)
    network: DraftHeads | MtpModules | Llama
    if name == "heads":
        network = DraftHeads.beginning_as(llama.lm_head.weight, 3, llama.model.embed_tokens.weight)
        for weight in (network.outward[1].get_parameter("weight"), network.projector.weight):
            torch.nn.init.normal_(weight, std=0.1)
        return Draft("heads", network.to(torch.bfloat16), target_hash(talker))
    if name == "draft_lm":
        network = make_cut(llama).float()
        return Draft("draft_lm", network.to(torch.bfloat16), target_hash(talker))
    network = MtpModules.beginning_as(llama, 2, sees_tokens=name == "mtp")
    return Draft("mtp", network.to(torch.bfloat16), target_hash(talker))


def make_trees(folder: Path) -> CalibratedTrees:
    ranks = np.random.default_rng(0).geometric(0.5, (500, 3)) - 1
    return CalibratedTrees.of(sha256(folder / WEIGHTS), RankPaths.count(ranks, 10), (16, 8))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_draft_is_loaded_as_it_was_saved(talker: Path, tmp_path: Path, name: str) -> None:
    draft = make_draft(name, talker)
    draft.save(tmp_path)
    loaded = Draft.load(tmp_path, talker)
    assert loaded.drafter == draft.drafter
    state = loaded.network.state_dict()
    assert state.keys() == draft.network.state_dict().keys()
    for key, value in draft.network.state_dict().items():
        assert torch.equal(state[key], value.float())
    assert not any(value.requires_grad for value in loaded.network.parameters())


def test_a_draft_of_another_talker_is_refused(talker: Path, tmp_path: Path) -> None:
    replace(make_draft("heads", talker), target="0" * 64).save(tmp_path / "heads")
    with pytest.raises(
        ArtifactMismatch, match=r"000000000000.*talkahead drafts train --replace --drafter heads"
    ):
        Draft.load(tmp_path / "heads", talker)
    with pytest.raises(ArtifactMismatch, match=r"draft_lm-2.*is missing.*--recipe draft_lm-2"):
        Draft.load(tmp_path / "draft_lm-2", talker)


def test_trees_are_read_as_they_were_saved_for_their_heads_alone(talker: Path, tmp_path: Path) -> None:
    make_draft("heads", talker).save(tmp_path)
    trees = make_trees(tmp_path)
    trees.save(tmp_path)
    read = CalibratedTrees.read(tmp_path, trees.draft)
    assert [one.tree for one in read.trees] == [one.tree for one in trees.trees]
    assert [len(read.within(nodes).shape) for nodes in (7, 8, 15, 16, 99)] == [1, 8, 8, 16, 16]
    with pytest.raises(ArtifactMismatch, match="other heads"):
        CalibratedTrees.read(tmp_path, "0" * 64)


def test_groups_are_read_as_they_were_saved_for_their_talker_alone(talker: Path, tmp_path: Path) -> None:
    embeddings = Llama.load(talker).model.embed_tokens.weight
    groups = group_tokens(embeddings, (0.3, 0.1), alone=[CONFIG.eos])
    assert groups[0.1].mean_size > groups[0.3].mean_size > 1
    save_groups(tmp_path, groups, target_hash(talker))
    read = load_groups(tmp_path, talker)
    assert list(read) == [0.3, 0.1]
    probs = torch.rand(4, len(embeddings), dtype=torch.float64)
    for threshold, one in groups.items():
        assert torch.equal(read[threshold].masses(probs), one.masses(probs))
    save_groups(tmp_path, groups, "0" * 64)
    with pytest.raises(ArtifactMismatch, match="calibrate"):
        load_groups(tmp_path, talker)


@pytest.mark.parametrize("vocabulary", [32_767, 32_768, 70_000])
def test_groups_of_any_vocabulary_are_read_as_they_were_saved(
    talker: Path, tmp_path: Path, vocabulary: int
) -> None:
    """All tokens alone but the last three; the smaller vocabulary's are kept in two bytes each."""
    tokens, sizes = torch.arange(vocabulary), torch.tensor([1] * (vocabulary - 3) + [3])
    groups = SimilarityGroups.from_sizes(tokens, sizes, vocabulary)
    save_groups(tmp_path, {0.5: groups}, target_hash(talker))
    kept = load_file(tmp_path / GROUPS_FILE).values()
    assert {one.element_size() for one in kept} == {2 if vocabulary == 32_767 else 4}
    (read,) = load_groups(tmp_path, talker).values()
    assert torch.equal(read.members, groups.members) and torch.equal(read.sizes, groups.sizes)
    assert torch.equal(read.num_owners, groups.num_owners)


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_loaded_draft_changes_no_token_of_the_native_decoder(
    talker: Path, tmp_path: Path, name: str, temperature: float
) -> None:
    """In float32: its rows do not see what else is computed, so equality is exact here as well."""
    make_draft(name, talker).save(tmp_path)
    if name == "heads":
        make_trees(tmp_path).save(tmp_path)
    pool = DraftPool(ROWS, POSITIONS)
    options = DraftOptions({"heads": 8, "draft_lm": 4}.get(name), returns_probs=False)
    drafter = load_drafter(tmp_path, talker, pool, options)
    plain = decode(talker, NullDrafter(), temperature, STEPS * 4)
    drafted = decode(talker, drafter, temperature, STEPS)
    assert all(own[: len(tokens)] == tokens for own, tokens in zip(plain, drafted, strict=True))
    assert sum(map(len, drafted)) > ROWS * (STEPS + 1)


def decode(talker: Path, drafter: Drafter, temperature: float, steps: int) -> list[list[int]]:
    """Tokens of each row, beyond any end of speech."""
    llama = Llama.load(talker)
    decoder = NativeDecoder(
        llama.config, llama.state_dict(), num_slots=ROWS, max_positions=POSITIONS, max_nodes=8
    )
    step = DecodeStep(decoder, drafter, MatchVerifier())
    options = RequestOptions(temperature=temperature, top_p=0.95)
    prompts = torch.randn(ROWS, 6, CONFIG.hidden_size, generator=torch.Generator().manual_seed(1))
    firsts = step.admit(
        [Admission(row, prompt[: 2 + row], options, row, segment=0) for row, prompt in enumerate(prompts)]
    )
    tokens = firsts.tolist()
    for _ in range(steps):
        drawn = step.run(range(ROWS))
        for row, own in enumerate(tokens):
            own += drawn.tokens[row, : drawn.counts[row], 0].tolist()
    return tokens


def test_drafts_are_served_as_narrow_as_the_cpu_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    for able in (torch.int8, torch.bfloat16, torch.float32):
        known = {torch.float32, able}
        monkeypatch.setattr(native_decoder, "can_multiply", known.__contains__)
        assert DraftPool.serving(ROWS, POSITIONS).dtype is able
        as_its_target = INT4 if able is torch.int8 else able
        assert DraftPool.serving(ROWS, POSITIONS, target=INT4).dtype is as_its_target
    assert DraftPool.serving(ROWS, POSITIONS, choice=DecoderChoice.TORCH).dtype is torch.float32
    assert DraftPool.serving(ROWS, POSITIONS, "cuda").dtype is torch.bfloat16
