"""Options that several command lines of this folder have."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from talkahead.backbone.decoder_choice import Precision


def add_precision(parser: argparse.ArgumentParser, default: Precision, note: str = "") -> None:
    """`--precision`: how the talker multiplies."""
    parser.add_argument(
        "--precision", type=Precision, choices=list(Precision), default=default, help=f"(%(default)s{note})"
    )


def add_slices(parser: argparse.ArgumentParser, seconds: float) -> None:
    """`--seconds` and `--slices`: how long each configuration is measured, in how many turns."""
    add = parser.add_argument
    add("--seconds", type=float, default=seconds, help="of each configuration under each load (%(default)g)")
    add("--slices", type=at_least(1), default=8, help="that these are cut into, by turns (%(default)s)")


def at_least(lowest: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if (number := int(text)) < lowest:
            raise ValueError(text)
        return number

    return count
