"""The whole server with each engine of its codec, under the same loads by turns."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from instruments.changed_repository import changed_repository
from instruments.server import server_at
from perf.cell import Cell
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns


def measure_served(
    repository: Path, engines: Sequence[str], streams: Sequence[int], seconds: float, slices: int
) -> list[Cell]:
    """Of each number of closed streams: a cell for each engine, with its gain over the first."""
    cells: list[Cell] = []
    with ExitStack() as servers:
        configurations = []
        for engine in engines:
            folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="talkahead-engines-")))
            served = changed_repository(repository, folder / "models", {"vocoder.engine": engine})
            server = servers.enter_context(server_at(None, None, [], served))
            configurations.append(Configuration(f"codec by {engine}", server, {}))
        for count in streams:
            load = Load(Mode.CLOSED, count, seconds, None, {})
            first, *others = by_turns(configurations, load, slices)
            cells += [first, *(other.over(first) for other in others)]
    return cells
