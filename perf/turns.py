"""Configurations measured by turns, so that what the machine does meanwhile meets both alike."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from talkahead_client import Client
from talkahead_client.protocol import ParameterValue

from instruments.server import Server
from perf import stages
from perf.cell import Cell
from perf.part import Part
from perf.stages import Histogram
from perf.streams import Load, Mode


@dataclass(frozen=True)
class Configuration:
    """A server and the parameters of the requests that it gets; `name` says both in words."""

    name: str
    server: Server
    parameters: Mapping[str, ParameterValue]

    @classmethod
    def of(cls, server: Server, parameters: Mapping[str, ParameterValue]) -> Self:
        return cls(name_of(parameters), server, parameters)


def name_of(parameters: Mapping[str, ParameterValue]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items()) or "the server's default"


def by_turns(configurations: Sequence[Configuration], load: Load, slices: int) -> list[Cell]:
    """The load in slices, each by all in turn, with the same texts and seeds; the next slice the other way
    round. A cell of each.

    Args:
        load: of each; its parameters are the configurations' own.
    """
    with contextlib.ExitStack() as clients:
        turns = [_Turn(one, clients.enter_context(Client(one.server.grpc))) for one in configurations]
        for turn in turns:
            turn.warm_up(load)
        for part in range(slices):
            piece = replace(load, seconds=load.seconds / slices, part=part)
            for turn in turns if part % 2 == 0 else reversed(turns):
                turn.run(piece, f"slice {part + 1} of {slices}")
        return [turn.cell(load) for turn in turns]


class _Turn:
    """What one configuration has said so far."""

    def __init__(self, configuration: Configuration, client: Client) -> None:
        self._configuration = configuration
        self._client = client
        self._parts: list[Part] = []
        self._passed: list[dict[str, Histogram]] = []

    def warm_up(self, load: Load) -> None:
        """Speaks once on every stream; nobody counts it."""
        self._asked(replace(load, mode=Mode.CLOSED, seconds=0.0)).run(self._client)

    def run(self, load: Load, note: str) -> None:
        name = self._configuration.name
        print(f"{load.mode}, {load.streams} streams, {note}: {name}", file=sys.stderr, flush=True)
        earlier = self._stages()
        began_s = time.perf_counter()
        utterances = self._asked(load).run(self._client)
        self._parts.append(Part(time.perf_counter() - began_s, utterances))
        self._passed.append(stages.passed(earlier, self._stages()))

    def cell(self, load: Load) -> Cell:
        return Cell.of(self._configuration.name, load, self._parts, stages.summary(self._passed))

    def _asked(self, load: Load) -> Load:
        return replace(load, parameters=self._configuration.parameters)

    def _stages(self) -> dict[str, Histogram]:
        page = self._configuration.server.metrics_url
        return {} if page is None else stages.read_page(page)
