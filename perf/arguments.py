"""Options that several command lines of this folder have."""

from __future__ import annotations

import argparse

from talkahead.backbone.decoder_choice import Precision


def add_precision(parser: argparse.ArgumentParser, default: Precision, note: str = "") -> None:
    """`--precision`: how the talker multiplies."""
    parser.add_argument(
        "--precision", type=Precision, choices=list(Precision), default=default, help=f"(%(default)s{note})"
    )
