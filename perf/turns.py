"""Configurations measured by turns, so that what the machine does meanwhile meets both alike."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Self

from talkahead_client import Client
from talkahead_client.protocol import ParameterValue

from instruments.server import Server
from perf import batches, memory, stages
from perf.batches import Counts
from perf.cell import Cell
from perf.part import Part
from perf.stages import Histogram
from perf.streams import Load, Mode, Speaker


@dataclass(frozen=True)
class Configuration:
    """A server, the parameters of the requests that it gets, and who asks; `name` says all in words."""

    name: str
    server: Server
    parameters: Mapping[str, ParameterValue]
    connect: Callable[[], AbstractContextManager[Speaker]] | None = None
    """None: the client, over gRPC."""

    def connected(self) -> AbstractContextManager[Speaker]:
        return Client(self.server.grpc) if self.connect is None else self.connect()

    @classmethod
    def of(cls, server: Server, parameters: Mapping[str, ParameterValue]) -> Self:
        return cls(name_of(parameters), server, parameters)


def name_of(parameters: Mapping[str, ParameterValue]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items()) or "the server's default"


def by_turns(configurations: Sequence[Configuration], load: Load, slices: int) -> list[Cell]:
    """The load in slices, each by all in turn, with the same texts and seeds. In the next slice the second
    one begins, so that what the machine does meanwhile meets all alike. A cell of each.

    Args:
        load: of each; its parameters are the configurations' own.
    """
    with contextlib.ExitStack() as stack:
        turns = [_Turn(one, stack.enter_context(one.connected())) for one in configurations]
        for turn in turns:
            turn.warm_up(load)
        for part in range(slices):
            piece = replace(load, seconds=load.seconds / slices, part=part)
            first = part % len(turns)
            for turn in (*turns[first:], *turns[:first]):
                turn.run(piece, f"slice {part + 1} of {slices}")
        return [turn.cell(load) for turn in turns]


class _Turn:
    """What one configuration has said so far."""

    def __init__(self, configuration: Configuration, speaker: Speaker) -> None:
        self._configuration = configuration
        self._speaker = speaker
        self._parts: list[Part] = []
        self._passed: list[dict[str, Histogram]] = []
        self._counts: list[tuple[Counts, Counts]] = []

    def warm_up(self, load: Load) -> None:
        """Speaks once on every stream; nobody counts it."""
        self._asked(replace(load, mode=Mode.CLOSED, seconds=0.0)).run(self._speaker)

    def run(self, load: Load, note: str) -> None:
        name = self._configuration.name
        print(f"{load.mode}, {load.streams} streams, {note}: {name}", file=sys.stderr, flush=True)
        before = self._configuration.server.metrics_page()
        began_s, busy_s = time.perf_counter(), time.process_time()
        utterances = self._asked(load).run(self._speaker)
        wall_s, busy_s = time.perf_counter() - began_s, time.process_time() - busy_s
        begins_at_once = load.mode is Mode.CLOSED and load.streams > 1
        self._parts.append(Part(wall_s, utterances, begins_at_once, busy_s / wall_s))
        after = self._configuration.server.metrics_page()
        self._passed.append(stages.passed(stages.read(before), stages.read(after)))
        self._counts.append((batches.read(before), batches.read(after)))

    def cell(self, load: Load) -> Cell:
        found = Cell.of(self._configuration.name, load, self._parts, stages.summary(self._passed))
        return replace(
            found,
            memory_bytes=memory.of(self._configuration.server),
            requests_a_pass=batches.requests_a_pass(self._counts),
        )

    def _asked(self, load: Load) -> Load:
        return replace(load, parameters=self._configuration.parameters)
