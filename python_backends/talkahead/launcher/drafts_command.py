"""`talkahead drafts train`: what it is told, and how it begins."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from talkahead.errors import TalkaheadError

if TYPE_CHECKING:  # torch takes seconds, and other commands do without
    from talkahead.draft_training.draft_order import DraftOrder

_OF_ONE = ("heads", "block_size", "folder", "start")
"""Options that say what one draft is like."""


def add_arguments(parser: argparse.ArgumentParser, positive: Callable[[str], float]) -> None:
    parser.epilog = (
        "The same command goes on where it was stopped, at any stage. What is not finished lies in work "
        "folders, and no server looks at it; commands that run side by side share what the talker says. What "
        "is finished is put beside the talker, and the next server that starts takes it by itself if it pays "
        "there (parameter drafter of talker/config.pbtxt: auto)."
    )
    add = parser.add_argument
    add(
        "--drafter",
        nargs="+",
        choices=("heads", "mtp", "draft_lm"),
        default=["heads"],
        help="mtp and draft_lm: for talkers with a Llama's layers; several learn from the same speech, one "
        "after the other (default: heads)",
    )
    add(
        "--texts",
        type=Path,
        metavar="FILE",
        help="what the talker speaks, one text a line; thousands that are like what it will say teach more "
        "than the 1,695 short ones that are taken without them",
    )
    add(
        "--minutes",
        type=positive,
        default=60.0,
        metavar="M",
        help="of speech to learn from; more is better, and texts are spoken again until there is as much "
        "(default: %(default)g)",
    )
    add(
        "--heads",
        type=_count,
        metavar="N",
        help="tokens that heads look ahead (default: 4); of mtp its modules (3), of draft_lm its layers (3)",
    )
    add(
        "--blind",
        action="store_true",
        help="heads or modules that see hidden states alone and learn as they were published (Li et al. "
        "2025, Tian et al. 2025); others are told the tokens that they continue, and are followed further",
    )
    add("--block-size", type=_count, metavar="N", help="of each head (default: by the talker's width)")
    add("--steps", type=_count, metavar="N", help="of learning at most (default: by the amount of speech)")
    add("--seconds", type=positive, metavar="S", help="that learning may take (default: no limit)")
    add("--rate", type=positive, default=2.5e-3, help="learning rate at its peak (default: %(default)g)")
    add("--seed", type=int, default=1, help="of speech and learning (default: %(default)s)")
    add("--device", default="auto", help="auto, cpu or cuda (default: a GPU if there is one)")
    add("--work", type=Path, metavar="FOLDER", help="of what is not finished (default: in the repository)")
    add(
        "--start",
        type=Path,
        metavar="FOLDER",
        help="a draft to begin from, such as the one there is for an earlier state of the talker; what of it "
        "does not fit (tables of other tokens) begins from the talker",
    )
    add(
        "--folder",
        metavar="NAME",
        help="of the draft, beside the talker's others (default: the drafter's name, where it is served)",
    )
    add("--replace", action="store_true", help="train anew what is there already, and put it in its place")


def run(options: argparse.Namespace) -> int:
    """Raises TalkaheadError for what cannot be done."""
    from talkahead.draft_training.draft_run import carry_out

    if options.texts is None:
        _say(
            "texts: none given, so 1,695 short ones of English are spoken; --texts FILE teaches more, and "
            "another language at all"
        )
    carry_out(orders_of(options), _say)
    return 0


def orders_of(options: argparse.Namespace) -> list[DraftOrder]:
    """What the command line asks for; raises TalkaheadError for what one draft alone can be told."""
    import torch

    from talkahead.draft_training.draft_order import DraftOrder
    from talkahead.draft_training.texts import DEFAULT

    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    drafters = list(dict.fromkeys(options.drafter))
    told = [name for name in _OF_ONE if getattr(options, name) is not None]
    if told and len(drafters) > 1:
        option = f"--{told[0].replace('_', '-')}"
        raise TalkaheadError(f"{option} is for one draft, not for {', '.join(drafters)} together")
    one = DraftOrder(
        repository=options.repository.resolve(),
        texts=options.texts or DEFAULT,
        device=device,
        is_blind=options.blind,
        replaces=options.replace,
        start=options.start.resolve() if options.start else None,
        **{
            name: getattr(options, name)
            for name in (
                "minutes",
                "steps",
                "seconds",
                "rate",
                "seed",
                "work",
                "heads",
                "block_size",
                "folder",
            )
        },
    )
    return [replace(one, drafter=drafter) for drafter in drafters]


def _say(line: str) -> None:
    print(f"drafts: {line}", file=sys.stdout, flush=True)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
