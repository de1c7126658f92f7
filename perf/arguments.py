"""Options that several command lines of this folder have."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from talkahead.backbone.decoder_choice import Precision
from talkahead_client.protocol import PARAMETERS, ParameterValue

from perf.arrivals import Length, Spacing
from perf.heard import TIMELY_MS


def add_precision(parser: argparse.ArgumentParser, default: Precision, note: str = "") -> None:
    """`--precision`: how the talker multiplies."""
    parser.add_argument(
        "--precision", type=Precision, choices=list(Precision), default=default, help=f"(%(default)s{note})"
    )


def add_slices(parser: argparse._ActionsContainer, seconds: float) -> None:
    """`--seconds` and `--slices`: how long each configuration is measured, in how many turns."""
    add = parser.add_argument
    add("--seconds", type=float, default=seconds, help="of each configuration under each load (%(default)g)")
    add("--slices", type=at_least(1), default=8, help="that these are cut into, by turns (%(default)s)")


def add_open_load(parser: argparse.ArgumentParser) -> None:
    """How requests that wait for nobody follow each other, who speaks, and what must be kept."""
    add = parser.add_argument
    add("--spacing", type=Spacing, choices=list(Spacing), default=Spacing.POISSON, help="(%(default)s)")
    add("--first-chunk-ms", type=float, default=TIMELY_MS, help="that 95 of 100 must keep (%(default)g)")
    add("--dry-share", type=float, default=0.001, help="of utterances that may run dry (%(default)g)")
    add("--voice")


def add_length(parser: argparse.ArgumentParser) -> None:
    """`--length`: of the texts of an open load."""
    parser.add_argument(
        "--length", type=Length, choices=list(Length), default=Length.MIXED, help="of texts (%(default)s)"
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    """`--set`: parameters of the requests that are measured, as (name, value)."""
    parser.add_argument("--set", type=parameter, action="append", default=[], metavar="NAME=VALUE",
        help="a request parameter; repeatable")  # fmt: skip


def parameter(text: str) -> tuple[str, ParameterValue]:
    """A request parameter."""
    name, _, value = text.partition("=")
    if name not in PARAMETERS:
        raise argparse.ArgumentTypeError(f"{name!r} is no parameter; allowed: {', '.join(PARAMETERS)}")
    kind = PARAMETERS[name]
    return name, value == "true" if kind is bool else kind(value)


def way(text: str) -> dict[str, ParameterValue]:
    """Request parameters that go together: NAME=VALUE,NAME=VALUE."""
    return dict(map(parameter, text.split(",")))


def setting(text: str) -> tuple[str, str]:
    """A parameter of a model's config.pbtxt."""
    place, equals, value = text.partition("=")
    if not equals or not value:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: MODEL.NAME=VALUE")
    return place, value


def more_than_zero(text: str) -> float:
    if (number := float(text)) > 0:
        return number
    raise argparse.ArgumentTypeError(f"{number:g}; more than 0 is allowed")


def at_least(lowest: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if (number := int(text)) < lowest:
            raise ValueError(text)
        return number

    return count
