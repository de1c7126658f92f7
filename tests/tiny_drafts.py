"""Untrained drafts for any talker: cut from it, so that some of what they draft is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from talkahead.backbone.llama import Llama
from talkahead.drafting.calibrated_trees import CalibratedTree, CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, target_hash
from talkahead.drafting.draft_files import draft_folder, group_folder
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.group_artifact import group_tokens, save_groups
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.drafting.rank_paths import RankTree
from talkahead.manifest import Manifest, sha256

MODULES = 2
TREES = (RankTree(((0,), (1,), (0, 0))), RankTree(((0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0))))
SIMILARITIES = (0.5, 0.3)


def put_drafts(talker: Path, similarities: Sequence[float] = SIMILARITIES) -> None:
    """All drafters and groups into the folder of a talker, with their manifests."""
    llama = Llama.load(talker)
    target = target_hash(talker)
    cut = Llama(replace(llama.config, num_hidden_layers=1))
    state = llama.state_dict()
    cut.load_state_dict({name: state[name] for name in cut.state_dict()})
    networks = {
        "heads": DraftHeads.beginning_as(llama.lm_head.weight, 3, llama.model.embed_tokens.weight),
        "mtp": MtpModules.beginning_as(llama, MODULES, sees_tokens=True),
        "draft_lm": cut,
    }
    for kind, network in networks.items():
        Draft(kind, network, target).save(draft_folder(talker, kind))
    heads = draft_folder(talker, "heads")
    trees = tuple(CalibratedTree(len(tree.shape), 1.5, tree) for tree in TREES)
    CalibratedTrees(sha256(heads / WEIGHTS), 1, trees).save(heads)
    groups = group_tokens(llama.model.embed_tokens.weight, similarities, alone=[llama.config.eos])
    save_groups(group_folder(talker), groups, target)
    for folder in (*(draft_folder(talker, kind) for kind in networks), group_folder(talker)):
        files = {path.name: sha256(path) for path in folder.iterdir()}
        Manifest("make tiny", "unknown", "none", 0, {}, files, "Apache-2.0", target).write(folder)
