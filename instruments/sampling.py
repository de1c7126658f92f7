"""How a command draws tokens: as the talker wants its own drawn, unless it is told otherwise."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from talkahead.config import RequestOptions
from talkahead.generation_config import read_sampling


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Adds `--temperature` and `--top-p`."""
    for name in ("--temperature", "--top-p"):
        parser.add_argument(name, type=float, help="(the talker's own)")


def sampling_of(options: argparse.Namespace, talker: Path) -> RequestOptions:
    """What `add_sampling` has read, and what the talker in a version folder wants where nothing was said.

    Raises ArtifactMismatch where the talker's own cannot be read.
    """
    told = {name: getattr(options, name) for name in ("temperature", "top_p")}
    named = {name: value for name, value in told.items() if value is not None}
    return RequestOptions(**{**asdict(read_sampling(talker)), **named})
