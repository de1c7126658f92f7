"""Makes every shipped weight from nothing: `make train`. Each stage goes on where it stopped.

With `--recipe`, what `instruments.recipes` names instead, shipped or not, for the talker and the codec that
are there: what they learned from is made anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from talkahead.draft_training.draft_shape import DraftShape
from talkahead.drafting.drafters import DRAFTERS
from talkahead.manifest import sha256

from instruments.recipes import RECIPES, SHIPPED, SMALLER, SMALLER_LAYERS, TALKERS, TUNED, command
from training.code_corpus import VOICES

STAGES = ("corpus", "codec", "dataset", "talker", "export", "drafts", "calibrate")


CHECKPOINTS = Path("training/checkpoints")
"""What of the codec is not shipped lies there: the encoder of its frames."""

Words = Sequence[object]


def stages(options: argparse.Namespace) -> Iterator[tuple[str, Words]]:
    """The commands of each stage, of all that is shipped."""
    corpus, out = options.build / "spectral", options.build / VOICES[0]
    codec, dataset = out / "codec", out / "dataset.npz"
    yield "corpus", ("training.spectral_corpus", "--folder", corpus)
    yield (
        "codec",
        (
            *("training.train_spectral_codec", "--corpus", corpus, "--out", out),
            *("--steps", options.codec_steps, "--code-steps", options.codec_steps // 2),
        ),
    )
    yield "dataset", ("training.code_corpus", "--codec", out, "--out", dataset)
    yield (
        "talker",
        (
            *("training.train_talker", "--dataset", dataset, "--codec", codec, "--out", out),
            *("--steps", options.talker_steps),
        ),
    )
    yield "export", ("training.export", "--training", out, "--repository", options.repository)
    for drafter in SHIPPED:
        yield "drafts", ("talkahead", *_own_drafts(drafter, options))
    yield "calibrate", _calibrate(options.repository, dataset)


def _own_drafts(drafter: str, options: argparse.Namespace) -> Words:
    """What a user trains drafts with, of a talker's own speech."""
    return (
        *("drafts", "train", "--repository", options.repository, "--drafter", drafter, "--replace"),
        *("--minutes", options.draft_minutes),
    )


def by_recipe(options: argparse.Namespace) -> Iterator[Words]:
    """The commands that make what `--recipe` names."""
    out, codec = options.build / "training", options.repository / "vocoder" / "1"
    dataset = out / f"dataset-{sha256(codec / 'codec.safetensors')[:12]}.npz"
    if not dataset.exists():
        yield ("training.code_corpus", "--codec", CHECKPOINTS, "--out", dataset)
    drafts = [name for name in options.recipe if name in RECIPES]
    if drafts:
        yield _drafts(drafts, options, dataset)
        yield _export_drafts(drafts, options)
    heads = [name for name in drafts if DRAFTERS[DraftShape.of(name).drafter].is_tree]
    if heads:
        yield (*_calibrate(options.repository, dataset), "--heads", *heads)
    if TUNED in options.recipe:
        tuned = options.build / TUNED
        yield (
            *("training.tune_base", "--repository", options.repository, "--dataset", dataset),
            *("--out", tuned, "--steps", TALKERS[TUNED]),
        )
        yield (*_calibrate(tuned, dataset), "--heads", "heads")
    if SMALLER in options.recipe:
        yield (
            *("training.train_talker", "--start", options.repository, "--layers", SMALLER_LAYERS),
            *("--codec", codec, "--dataset", dataset, "--out", out / SMALLER, "--steps", TALKERS[SMALLER]),
        )
        yield (
            *("training.export", "--training", out / SMALLER, "--models", "encoder", "talker"),
            *("--data", dataset.with_suffix(".json"), "--repository", options.build / SMALLER),
            *("--made-by", command(SMALLER)),
        )


def _drafts(names: Sequence[str], options: argparse.Namespace, dataset: Path) -> Words:
    return (
        *("training.train_drafts", "--recipe", *names, "--dataset", dataset),
        *("--out", options.build / "training" / "drafts", "--repository", options.repository),
    )


def _export_drafts(names: Sequence[str], options: argparse.Namespace) -> Words:
    drafts = options.build / "training" / "drafts"
    return (
        *("training.export_drafts", "--names", *names),
        *("--drafts", drafts, "--repository", options.repository),
    )


def _calibrate(repository: Path, dataset: Path) -> Words:
    return ("build_engines", "calibrate", "--repository", repository, "--dataset", dataset)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="training", description=__doc__)
    parser.add_argument(
        "--build", type=Path, default=Path("build"), help="where everything in between is kept"
    )
    parser.add_argument("--repository", type=Path, default=Path("model_repository"))
    parser.add_argument("--codec-steps", type=int, default=3_000)
    parser.add_argument("--talker-steps", type=int, default=4_000)
    parser.add_argument(
        "--draft-minutes",
        type=float,
        default=60,
        help="of its own speech, that drafts learn from",
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    chosen.add_argument(
        "--recipe",
        nargs="+",
        choices=(*RECIPES, *TALKERS),
        help="of drafts, and of talkers that are not shipped",
    )
    options = parser.parse_args(arguments)
    commands = (
        by_recipe(options)
        if options.recipe
        else (one for name, one in stages(options) if name in options.stages)
    )
    for one in commands:
        words = [str(word) for word in one]
        print(f"training: {' '.join(words)}", flush=True)
        subprocess.run([sys.executable, "-m", *words], check=True)


if __name__ == "__main__":
    main()
