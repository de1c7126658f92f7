"""What listeners made of the utterances of a load, whatever the load was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from talkahead_client import Figures

from instruments.report import Spread
from perf.utterance import Utterance

BUFFER_MS = 100.0
"""That a careful player waits after the first chunk before it begins."""
TIMELY_MS = 80.0
"""What a first chunk takes at most to be called timely, where nothing else is asked for."""


@dataclass(frozen=True)
class Heard:
    """Of utterances that were spoken, neither refused nor failed."""

    utterances: list[Utterance]

    @classmethod
    def of(cls, utterances: Iterable[Utterance]) -> Self:
        """Those of all that were asked for."""
        return cls([one for one in utterances if one.figures is not None])

    @cached_property
    def figures(self) -> list[Figures]:
        return [one.figures for one in self.utterances if one.figures is not None]

    @property
    def last_chunk_ms(self) -> Spread:
        """From the request."""
        return Spread.of([one.total_ms for one in self.figures])

    @property
    def real_time_factor(self) -> Spread:
        return Spread.of([one.real_time_factor for one in self.figures])

    @property
    def ran_dry(self) -> int:
        """Utterances in which a chunk arrived after everything before it had been played out."""
        return sum(one.dry_chunks > 0 for one in self.figures)

    @property
    def ran_dry_buffered(self) -> int:
        """The same for a player that waits `BUFFER_MS` first."""
        return sum(one.stalled_ms(BUFFER_MS) > 0 for one in self.utterances)

    @property
    def stalled_s(self) -> float:
        """Silence that this left in the middle of all speech."""
        return sum(one.dry_ms for one in self.figures) / 1e3

    def good(self, within_ms: float) -> int:
        """Utterances whose first chunk came within that, and that never ran dry."""
        return sum(one.first_chunk_ms <= within_ms and not one.dry_chunks for one in self.figures)
