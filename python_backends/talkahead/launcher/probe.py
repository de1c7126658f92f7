"""`talkahead-probe`: whether the server on this machine speaks; for health checks, made every second.

A command of its own, because it loads much less than `talkahead` does. It asks over HTTP, which has no TLS: a
server that takes only clients with certificates is asked alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from talkahead.launcher.addresses import Addresses
from talkahead.launcher.health_check import SPEECH_MODEL, TEXT, is_well

_LONGEST_S = 4.0
_ANSWER_SHARE = 0.75
"""Of the deadline: when a syllable that still waits for a slot is answered, for a full server is well. Where
the codec hangs, that answer is late by the 2 s that the talker waits for what it has sent; it must not count.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status: 0 where the server speaks, or is full."""
    options = _parser().parse_args(arguments)
    limit_ms = round(1e3 * _ANSWER_SHARE * options.deadline)
    short = {"health_check": True, "max_seconds": 0.1, "urgency": 3, "deadline_ms": limit_ms}
    addresses = Addresses(options.host, 0, options.http_port, 0)
    failure = addresses.speak(SPEECH_MODEL, TEXT, short, options.deadline)
    if failure is None or is_well(failure):
        return 0
    print(f"the server does not speak: {failure}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="talkahead-probe",
        description="Says by its exit status whether the server on this machine speaks: 0 if it does, or if "
        "it has no room; else 1, and why.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="(%(default)s)")
    add("--http-port", type=int, required=True, metavar="PORT", help="of the server's HTTP")
    add("--deadline", type=_deadline, default=1.5, metavar="S",
        help=f"for the syllable, at most {_LONGEST_S:g} (%(default)g)")  # fmt: skip
    return parser


def _deadline(text: str) -> float:
    if not 0.1 <= (seconds := float(text)) <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is not from 0.1 to {_LONGEST_S:g} seconds")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
