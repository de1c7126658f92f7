"""First chunk and continuity through the whole server on a GPU, by number of streams that play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from talkahead_client.protocol import ParameterValue

from instruments.changed_repository import changed_repository
from instruments.environment import REPOSITORY
from instruments.server import server_at
from perf.cell import Cell
from perf.served_shapes import accepting, bounded, imported
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns

_ACCEPTANCE, _SPEECH_S = 0.7, 8.0
"""Of the one token that is drafted with random weights; of each text, which these do not end."""


@dataclass(frozen=True)
class Served:
    """
    Args:
        drafted, plain: parameters of requests, which are compared.
        options: of `talkahead serve`.
    """

    repository: Path
    drafted: Mapping[str, ParameterValue]
    plain: Mapping[str, ParameterValue]
    options: Sequence[str] = ()

    @classmethod
    def our_voice(cls) -> Self:
        """By the server's own choice of drafts."""
        return cls(REPOSITORY, {}, {"drafter": "none"})

    @classmethod
    def public(cls, shape: str, folder: Path) -> Self:
        """Of random weights, made in a folder once; nobody minds that its server speaks no sense."""
        given = bounded(_SPEECH_S)
        drafted, plain = {**accepting(_ACCEPTANCE), **given}, {"drafter": "none", **given}
        return cls(imported(shape, folder), drafted, plain, ("--check-interval", "0"))

    def measure(self, streams: Sequence[int], seconds: float, slices: int, scratch: Path) -> Iterator[Cell]:
        """Drafted and plain by turns under each number of streams; nothing of what nobody was heard with."""
        slots = {"talker.slots": str(max(streams))}
        repository = changed_repository(self.repository, scratch / "repository", slots)
        with server_at(None, None, self.options, repository) as server:
            asked = [Configuration.of(server, way) for way in (self.drafted, self.plain)]
            for count in streams:
                load = Load(Mode.PLAYING, count, seconds, None, {})
                drafted, plain = by_turns(asked, load, slices)
                yield from (one for one in (drafted.over(plain), plain) if one.spoken)
