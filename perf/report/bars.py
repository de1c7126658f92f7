"""What the server is to reach, and what was measured of it: each bar has a floor and a goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from instruments.report import markdown
from perf.report.pictures import Report, of_first_configuration

Reports = Mapping[str, Report]
_TWINS_SHARE = 0.8
"""Of what the twin can speak, at which it is compared."""


@dataclass(frozen=True)
class Bar:
    """
    Args:
        report: the name of the one that has it.
        value: of that report.
        told: of a value, the floor or the goal.
        is_least: more is better.
    """

    what: str
    report: str
    value: Callable[[Report], float]
    told: str
    floor: float
    goal: float
    is_least: bool = False

    def row(self, reports: Reports) -> dict[str, str]:
        told = {"floor": self.told.format(self.floor), "goal": self.told.format(self.goal)}
        try:
            value = self.value(reports[self.report])
        except (LookupError, ZeroDivisionError):  # no report, or of other streams and rates
            return {"": self.what, **told, "measured": "not yet"}
        return {"": self.what, **told, "measured": f"{self.told.format(value)}{self._verdict(value)}"}

    def _verdict(self, value: float) -> str:
        sign = -1.0 if self.is_least else 1.0
        if sign * value <= sign * self.goal:
            return ", the goal"
        return "" if sign * value <= sign * self.floor else ", **missed**"


def bars(reports: Reports) -> str:
    """Args: reports: by name, those that there are."""
    return markdown([one.row(reports) for one in BARS])


def _of_closed(streams: int, *names: str) -> Callable[[Report], float]:
    """A figure of closed streams at the server's default; raises LookupError where nobody knows."""

    def value(report: Report) -> float:
        cells = {(one["mode"], one["streams"]): one for one in of_first_configuration(report)}
        found: Any = cells["closed", streams]
        for name in names:
            if (found := found[name]) is None:
                raise LookupError(name)
        return float(found)

    return value


def _speed_of(pair: str) -> Callable[[Report], float]:
    """The talker's with this pair, of one closed stream that draws otherwise than it would without."""

    def value(report: Report) -> float:
        cells = {name: one for one in report["results"] if one["streams"] == 1 for name in one["pairs"]}
        return float(cells[pair]["gain"]["talker_speed"]["value"])

    return value


def _crowd_over_one(report: Report) -> float:
    crowd, one = (_of_closed(streams, "first_chunk_ms", "p95")(report) for streams in (16, 1))
    return crowd / one


def _eight_over_one(report: Report) -> float:
    found = {one["load"]["rate"]: one["first_chunk_ms"]["p95"] for one in report["results"]}
    return float(found[8.0] / found[1.0])


def _over_the_other(report: Report) -> float:
    own, other = (one["rate"] for one in report["settings"]["limits"])
    return float(own / other)


def _below_the_twin(report: Report) -> float:
    wanted, levels = _TWINS_SHARE * report["settings"]["stable_rate"], report["results"]
    pairs = zip(levels[::2], levels[1::2], strict=True)
    streamed, twin = min(pairs, key=lambda pair: abs(pair[0]["load"]["rate"] - wanted))
    return 1.0 - float(streamed["first_chunk_ms"]["p50"] / twin["first_chunk_ms"]["p50"])


def _dry(report: Report) -> float:
    [level] = report["results"]
    return float(level["ran_dry"] / level["spoken"])


_MS, _TIMES, _PERCENT, _RARELY = "{:.0f} ms", "{:.2f}x", "{:.1%}", "{:.2%}"
BARS = (
    Bar("first chunk of one stream, p50", "latency", _of_closed(1, "first_chunk_ms", "p50"), _MS, 45, 30),
    Bar("its first audible sample, p50", "latency", _of_closed(1, "first_audible_ms", "p50"), _MS, 80, 55),
    Bar("first chunk, p95, at 8 requests a second over that at 1", "load", _eight_over_one, _TIMES, 1.6, 1.2),
    Bar("of 16 who ask again at once over that of one", "latency", _crowd_over_one, _TIMES, 3.0, 1.5),
    Bar("streams that ran dry at four fifths of the rated load", "soak", _dry, _RARELY, 0.001, 0.0),
    Bar("rated load (p95 of 80 ms, 1 of 1,000 dry) over that first in, first out, without drafts", "order",
        _over_the_other, _TIMES, 1.3, 2.0, is_least=True),
    Bar("first chunk, p50, lower than whole utterances' in static batches", "twin", _below_the_twin, _PERCENT,
        0.9, 0.97, is_least=True),
    Bar("the talker's speed by drafting, one stream, same tokens (with AMX: 1.6x, 2.2x)", "latency",
        _of_closed(1, "gain", "talker_speed", "value"), _TIMES, 1.4, 2.0, is_least=True),
    Bar("by heads + tolerance 3, one stream", "methods", _speed_of("heads+tolerance"), _TIMES, 2.0, 3.2,
        is_least=True),
    Bar("by mtp + topk", "methods", _speed_of("mtp+topk"), _TIMES, 1.6, 2.1, is_least=True),
    Bar("by draft_lm + groups", "methods", _speed_of("draft_lm+groups"), _TIMES, 1.5, 1.9, is_least=True),
    Bar("audio a second of 16 closed streams by drafting", "latency",
        _of_closed(16, "gain", "audio_s_per_s", "value"), _TIMES, 1.1, 1.3, is_least=True),
)  # fmt: skip
