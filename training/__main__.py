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

from instruments.recipes import DRAFTS, MINUTES, SHIPPED, SMALLER_LAYERS, STEPS, TALKERS, TUNED, command
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
    yield from (("drafts", words) for words in _write_draft_texts(options))
    yield "drafts", _train_drafts(("--drafter", *SHIPPED), options)
    yield "calibrate", _calibrate(options.repository, dataset)


def _train_draft(name: str, options: argparse.Namespace) -> Words:
    folder = () if name in SHIPPED else ("--folder", name)
    return _train_drafts((*DraftShape.of(name).options.split(), *folder), options)


def _train_drafts(which: Words, options: argparse.Namespace) -> Words:
    """What a user trains drafts with, of a talker's own speech."""
    return (
        *("talkahead", "drafts", "train", *which, "--replace"),
        *("--repository", options.repository, "--minutes", options.draft_minutes),
        *("--texts", _draft_texts(options), "--steps", options.draft_steps),
    )


def _draft_texts(options: argparse.Namespace) -> Path:
    found: Path = options.build / "training" / "draft-texts.txt"
    return found


def _write_draft_texts(options: argparse.Namespace) -> Iterator[Words]:
    """Once: a draft goes on with the texts that it began with."""
    if not _draft_texts(options).exists():
        yield ("training.draft_texts", "--out", _draft_texts(options))


def by_recipe(options: argparse.Namespace) -> Iterator[Words]:
    """The commands that make what `--recipe` names."""
    if {TUNED, *DRAFTS} & set(options.recipe):
        yield from _write_draft_texts(options)
    yield from (_train_draft(name, options) for name in options.recipe if name in DRAFTS)
    talkers = [name for name in options.recipe if name in TALKERS]
    heads = [name for name in options.recipe if name in DRAFTS and _is_tree(name)]
    codec = options.repository / "vocoder" / "1"
    dataset = options.build / "training" / f"dataset-{sha256(codec / 'codec.safetensors')[:12]}.npz"
    if (talkers or heads) and not dataset.exists():
        yield ("training.code_corpus", "--codec", CHECKPOINTS, "--out", dataset)
    if heads:
        yield (*_calibrate(options.repository, dataset), "--heads", *heads)
    for name in talkers:
        yield from _talker(name, options, dataset)


def _is_tree(name: str) -> bool:
    return DRAFTERS[DraftShape.of(name).drafter].is_tree


def _talker(name: str, options: argparse.Namespace, dataset: Path) -> Iterator[Words]:
    """One that goes on from the shipped one, in a repository of its own."""
    out, repository = options.build / "training" / name, options.build / name
    shape = ("--heads", DraftShape.of("heads").size) if name == TUNED else ("--layers", SMALLER_LAYERS)
    yield (
        *("training.train_talker", "--start", options.repository, *shape, "--dataset", dataset),
        *("--codec", options.repository / "vocoder" / "1", "--out", out, "--steps", TALKERS[name]),
    )
    yield (
        *("training.export", "--training", out, "--models", "encoder", "talker", "--repository", repository),
        *("--data", dataset.with_suffix(".json"), "--made-by", command(name)),
    )
    if name == TUNED:
        # Its drafts learn from its own speech, for which it needs the format of the codec.
        yield (
            *("training.export", "--training", CHECKPOINTS, "--models", "vocoder"),
            *("--repository", repository, "--made-by", command(name)),
        )
        own = argparse.Namespace(**{**vars(options), "repository": repository})
        yield (*_train_draft("heads", own), "--start", out / "heads")
        yield (*_calibrate(repository, dataset), "--heads", "heads")


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
        default=MINUTES,
        help="of its own speech, that drafts learn from (%(default)s)",
    )
    parser.add_argument(
        "--draft-steps", type=int, default=STEPS, help="that each draft learns for (%(default)s)"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    chosen.add_argument(
        "--recipe",
        nargs="+",
        choices=(*DRAFTS, *TALKERS),
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
