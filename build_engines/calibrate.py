"""Counts which draft trees are worth their nodes, and groups tokens that sound alike.

The talker speaks texts by itself, and the best trees are kept beside each set of heads: for one draw by the
ranks of what was said, for a tolerance by what it would accept of a wide tree. Groups come from the talker's
embeddings (Yanuka et al. 2025, section 2.1), at the thresholds that give the mean sizes asked for, or at
those given: thresholds belong to one model each. At last, what each served draft brings with `match` is
counted by drafting.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.draft_training.accepted_paths import TOLERANCE, WIDE, count_accepted
from talkahead.draft_training.count_acceptance import count_acceptance
from talkahead.draft_training.draft_ranks import count_ranks
from talkahead.draft_training.own_speech import OwnSpeech, Talker
from talkahead.drafting.calibrated_trees import NAME, CalibratedTrees
from talkahead.drafting.draft_artifact import WEIGHTS, Draft, target_hash
from talkahead.drafting.draft_files import ACCEPTANCE, CONFIG, draft_folder, read_json
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.drafters import DRAFTERS
from talkahead.drafting.group_artifact import group_tokens, save_groups
from talkahead.drafting.offer import read_offer
from talkahead.drafting.rank_paths import AcceptedPaths, RankPaths
from talkahead.manifest import Manifest, readable_files, sha256
from talkahead.speculation.similarity_groups import cosine_of
from torch import Tensor

from build_engines.prompts import make_prompts
from instruments.dataset import Dataset
from instruments.prompts import read_prompts
from instruments.provenance import LICENCE, source_commit
from instruments.sampling import add_sampling, sampling_of

NODES = (2, 3, 4, 6, 8, 16, 32, 64, 96, 128)
MEAN_SIZES = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0, 80.0)
_COMMAND = "python -m build_engines calibrate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--repository", type=Path, default=Path("model_repository"), help="(%(default)s)")
    add("--texts", type=Path, default=Path("perf/texts.txt"), help="one a line, spoken by every voice")
    add("--dataset", type=Path, help="speak its calibration texts instead of --texts")
    add("--count", type=int, default=200, help="of the texts, at most (%(default)s)")
    add("--heads", nargs="+", metavar="NAME", help="count trees of these, and nothing else")
    add("--tried", type=int, default=60, help="of the texts, to count what a tolerance accepts (%(default)s)")
    add("--nodes", type=int, nargs="+", default=NODES, help="of each tree, root included (%(default)s)")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--mean-sizes", type=float, nargs="+", default=MEAN_SIZES, help="of groups (%(default)s)"
    )
    sizes.add_argument("--thresholds", type=float, nargs="+", help="cosines, instead of mean sizes")
    add_sampling(parser)
    add("--seed", type=int, default=1, help="(%(default)s)")


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    folder = options.repository / "talker" / "1"
    talker = Llama.load(folder)
    if not options.heads:
        _calibrate_groups(talker, folder, options)
    _calibrate_all_trees(talker, folder, options)
    if not options.heads:
        _count_acceptance(folder, options)


def _calibrate_all_trees(talker: Llama, folder: Path, options: argparse.Namespace) -> None:
    found = [path.parent for path in sorted(folder.glob(f"drafts/*/{WEIGHTS}")) if _grows_trees(path.parent)]
    heads = [one for one in found if not options.heads or one.name in options.heads]
    if not heads:
        print("calibrate: no heads, so no trees")
        return
    sampling = sampling_of(options, folder)
    prompts, voice = _prompts(options), Talker.of(talker)
    spoken = OwnSpeech(voice, prompts, sampling, options.seed).plain()
    tried = OwnSpeech(voice, prompts[: options.tried], sampling, options.seed)
    for one in heads:
        network = _heads_of(one, folder)
        paths = count_ranks(network, spoken, sampling)
        wide = paths.best_tree(round(WIDE * max(options.nodes)))
        accepted = count_accepted(network, tried, wide, TOLERANCE, talker.config.eos)
        _calibrate_trees(one, paths, {TOLERANCE: accepted}, options.nodes)


def _prompts(options: argparse.Namespace) -> list[Tensor]:
    encoder = options.repository / "encoder" / "1"
    if options.dataset is None:
        return make_prompts(encoder, options.texts, options.count)
    return read_prompts(encoder, Dataset(options.dataset, "calibration"), options.count, seed=1)


def _count_acceptance(folder: Path, options: argparse.Namespace) -> None:
    """Of what is served; what lies beside it for trials is not."""
    sampling = sampling_of(options, folder)
    for name, sizes in read_offer(folder).drafters.items():
        draft = draft_folder(folder, name)
        counted = count_acceptance(draft, sizes.nodes, folder, _prompts(options), sampling, options.seed)
        counted.save(draft)
        _list_file(draft, ACCEPTANCE)
        brought = ", ".join(f"{nodes}: {tokens:.2f}" for nodes, tokens in counted.committed_per_step.items())
        print(f"calibrate: {name} with match, tokens a step by nodes: {brought}")


def _list_file(folder: Path, name: str) -> None:
    """The manifest of what lies in a folder knows the file as it is now."""
    manifest = Manifest.read(folder)
    replace(manifest, files={**manifest.files, name: sha256(folder / name)}).write(folder)


def _grows_trees(folder: Path) -> bool:
    return DRAFTERS[read_json(folder / CONFIG)["kind"]].is_tree


def _heads_of(folder: Path, talker: Path) -> DraftHeads:
    network = Draft.load(folder, talker).network
    assert isinstance(network, DraftHeads)
    return network


def _calibrate_trees(
    folder: Path, paths: RankPaths, tolerant: Mapping[int, AcceptedPaths], sizes: Sequence[int]
) -> None:
    trees = CalibratedTrees.of(sha256(folder / WEIGHTS), paths, sizes, tolerant)
    trees.save(folder)
    _list_file(folder, NAME)
    for trials in (1, *tolerant):
        for one in trees.of_trials(trials):
            print(
                f"calibrate: {folder.name}, draws {trials}, {one.nodes} nodes: "
                f"{one.committed_per_step:.3f} tokens a step"
            )


def _calibrate_groups(talker: Llama, folder: Path, options: argparse.Namespace) -> None:
    embeddings, eos = talker.model.embed_tokens.weight, talker.config.eos
    thresholds = options.thresholds or [cosine_of(embeddings[:eos], size) for size in options.mean_sizes]
    groups = group_tokens(embeddings, sorted(set(thresholds), reverse=True), alone=[eos])
    target, out = target_hash(folder), folder / "groups"
    save_groups(out, groups, target)
    for threshold, one in groups.items():
        print(
            f"calibrate: cosine above {threshold:g}: {one.num_groups} groups, mean size {one.mean_size:.2f}, "
            f"largest {one.largest_size}"
        )
    files = readable_files(path for path in sorted(out.iterdir()) if path.stem == "groups")
    Manifest(_COMMAND, source_commit(), "the talker's embeddings", 0, {}, files, LICENCE, target).write(out)
