"""`python -m perf.vanishing`: what clients that vanish in the middle of a stream leave in a server's memory.

A process listens to several streams, each over a connection of its own; when all speak it is killed, or, for
comparison, closes them politely. The server becomes idle before its memory is read.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

from talkahead_client import Client

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.server import server_at
from perf.arguments import at_least
from perf.memory import SERVER, resident_bytes
from perf.texts import TEXTS

_TEXT = " ".join(TEXTS)
"""Long enough to be left in the middle."""
_WARM_UP_ROUNDS = 3
_IDLE_LIMIT_S = 60.0
_POLL_S = 0.05
_HOLDERS = (SERVER, "talker")
_BUSY = ("active", "queued", "open_streams", "windows_in_flight", "slots_taken")

Memory = Callable[[], dict[str, int]]


class Leaving(StrEnum):
    """How a process ends that listens to streams."""

    POLITE = "polite"
    """It cancels its streams, waits for their end, and disconnects."""
    VANISHED = "vanished"
    """Killed: its connections are cut."""


@dataclass(frozen=True)
class Round:
    """One process that left: by how many bytes each process of the server grew meanwhile."""

    leaving: Leaving
    streams: int
    grown: dict[str, int]


@dataclass(frozen=True)
class Growth:
    """What a client (one stream on one connection) left: by how much the server grew over all rounds of one
    kind. An allocator takes and gives back large pieces, so that a single round says little.

    Args:
        bytes_per_client: in the processes that keep something of a stream while it runs; the others' memory
            comes and goes with their batches.
    """

    leaving: Leaving
    clients: int
    bytes_per_client: float
    by_process: dict[str, float]
    rounds: list[Round]

    @classmethod
    def of(cls, leaving: Leaving, rounds: Sequence[Round]) -> Self:
        own = [one for one in rounds if one.leaving is leaving]
        clients = sum(one.streams for one in own)
        by_process = {name: sum(one.grown[name] for one in own) / clients for name in own[0].grown}
        return cls(leaving, clients, sum(by_process[name] for name in _HOLDERS), by_process, own)

    def row(self) -> dict[str, str]:
        return {
            "clients": f"{self.clients} {self.leaving}",
            " + ".join(_HOLDERS): f"{self.bytes_per_client / 1e3:.1f} kB each",
            **{name: f"{grown / 1e3:.1f} kB" for name, grown in self.by_process.items()},
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(options.repository)
    # Triton waits at its end for the requests that it never released.
    with server_at(None, None, ["--exit-timeout", "1"], options.repository) as server:
        launcher = server.launcher
        assert launcher is not None, "a server of our own"
        rounds = measure(server.grpc, lambda: resident_bytes(launcher), options.streams, options.rounds)
    growths = [Growth.of(leaving, rounds) for leaving in Leaving]
    print(report.table([growth.row() for growth in growths]))
    settings = {"streams": options.streams, "rounds": options.rounds, "text": _TEXT}
    report.save(options.out, "vanishing", environment, settings, growths)
    return 0


def measure(
    address: str, memory: Memory, streams: int, rounds: int, kinds: Iterable[Leaving] = Leaving
) -> list[Round]:
    """Rounds of one kind, then of the other, each after some that nobody counts: the first ones grow it."""
    measured = []
    with Client(address) as client:
        for leaving in kinds:
            for number in range(-_WARM_UP_ROUNDS, rounds):
                before = memory()
                _leave(address, streams, leaving)
                _wait_until_idle(client)
                after = memory()
                print(f"round {number + 1} of {rounds}: {leaving}", file=sys.stderr, flush=True)
                if number >= 0:
                    grown = {name: after[name] - before[name] for name in before}
                    measured.append(Round(leaving, streams, grown))
    return measured


def _leave(address: str, streams: int, leaving: Leaving) -> None:
    """A process that listens until all of its streams speak, and then ends."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_listen, args=(address, streams, theirs))
    process.start()
    theirs.close()
    try:
        ours.recv()
        if leaving is Leaving.POLITE:
            ours.send(None)
            process.join()
    finally:
        process.kill()
        process.join()


def _listen(address: str, streams: int, told: Connection) -> None:
    clients = [Client(address) for _ in range(streams)]
    speeches = [client.speak(_TEXT) for client in clients]
    for speech in speeches:
        next(speech)
    told.send(None)
    told.recv()
    for client in clients:
        client.close()


def busy(client: Client) -> dict[str, int]:
    """What the talker counts of streams that is not none: these, windows without an answer, slots."""
    details = client.load().details
    return {name: details[name] for name in _BUSY if details[name]}


def _wait_until_idle(client: Client) -> None:
    """Nothing of a stream is left in the talker; it tells of that only when asked."""
    ends_s = time.monotonic() + _IDLE_LIMIT_S
    while left := busy(client):
        if time.monotonic() > ends_s:
            raise SystemExit(f"{_IDLE_LIMIT_S:g} s after its listeners left, the server still has {left}")
        time.sleep(_POLL_S)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.vanishing", description=__doc__)
    add = parser.add_argument
    add("--streams", type=at_least(1), default=15, help="of each process that leaves (%(default)s)")
    add("--rounds", type=at_least(1), default=30, help="of either kind (%(default)s)")
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/vanishing.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
