"""Builds a network's TensorRT plan on the GPU that will serve it, and proves that it does what torch does.

It is made of the file that `export` wrote, through Polygraphy: a profile for each bucket of windows, a timing
cache that makes the next build short, products of --precision. MODEL/1/tensorrt gets its name only when the
plan passes `parity`. The engines of CPUs need no plan: they take the exported file as it is. TensorRT plans
are made of our codec and of XCodec2 and NeuCodec.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from talkahead.families.tensorrt_network import TENSORRT

from build_engines.network_sources import SOURCES
from build_engines.tensorrt_plan import PRECISIONS, PlanBuilder
from instruments.environment import REPOSITORY


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", choices=["vocoder"], help="whose network")
    add("--engine", choices=[TENSORRT], default=TENSORRT, help="(%(default)s)")
    add("--precision", choices=PRECISIONS, default="fp16", help="of products (%(default)s)")
    add(
        "--any-ampere-or-later",
        action="store_true",
        help="a plan for every GPU from Ampere on, somewhat slower than one for the GPU here alone",
    )
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")


def run(options: argparse.Namespace) -> None:
    """Raises TalkaheadError where something is missing, or the plan does something else."""
    source = SOURCES[options.model](options.repository)
    PlanBuilder(source, options.precision, options.any_ampere_or_later).build()
