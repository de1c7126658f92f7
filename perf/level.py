"""One configuration at one rate of requests: its figures, and the answers that they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from instruments.report import Spread
from perf.heard import Heard
from perf.open_loop import Answers, OpenLoad
from perf.part import ratio

_MOST_LATE_MS = 10.0
"""p95 of the generator's own lateness, beyond which a rate was not really offered."""


@dataclass(frozen=True)
class Limit:
    """What a rate must keep to be called held.

    Args:
        first_chunk_ms: that 95 of 100 first chunks take at most.
        dry_share: of the utterances, that may run dry.
    """

    first_chunk_ms: float
    dry_share: float


@dataclass(frozen=True)
class Level:
    """A rate of requests, each sent whatever became of those before.

    Args:
        asked: requests; each was spoken, refused (the server was too busy, and said so) or failed.
        refusal_ms, last_chunk_ms: from the request.
        ran_dry, ran_dry_buffered, stalled_s: as `Heard` has them.
        goodput_per_s: requests a second whose first chunk came within the limit and that never ran dry.
        generator_late_ms, generator_share: of the load's own lateness, and of a core.
        memory_bytes: of the server's processes at the end, where it was started for the measurement.
        requests_a_pass: by model, that Triton handed over together, where its metrics are told.
    """

    configuration: str
    load: OpenLoad
    limit: Limit
    wall_s: float
    asked: int
    spoken: int
    refused: int
    failed: int
    refusal_ms: Spread
    first_chunk_ms: Spread
    first_audible_ms: Spread
    last_chunk_ms: Spread
    gap_ms: Spread
    ran_dry: int
    ran_dry_buffered: int
    stalled_s: float
    real_time_factor: Spread
    audio_s_per_s: float
    goodput_per_s: float
    generator_late_ms: Spread
    generator_share: float
    memory_bytes: dict[str, int]
    parts: list[Answers]
    requests_a_pass: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, configuration: str, load: OpenLoad, limit: Limit, parts: list[Answers], memory: dict[str, int]
    ) -> Self:
        utterances = [one for part in parts for one in part.utterances]
        heard = Heard.of(utterances)
        refusals_ms = [one.failed_ms for one in utterances if one.is_refused and one.failed_ms is not None]
        refused = len(refusals_ms)
        wall_s = sum(part.wall_s for part in parts)
        audible = [one.first_audible_ms for one in heard.figures if one.first_audible_ms is not None]
        return cls(
            configuration=configuration,
            load=load,
            limit=limit,
            wall_s=wall_s,
            asked=len(utterances),
            spoken=len(heard.figures),
            refused=refused,
            failed=len(utterances) - len(heard.figures) - refused,
            refusal_ms=Spread.of(refusals_ms),
            first_chunk_ms=Spread.of([one.first_chunk_ms for one in heard.figures]),
            first_audible_ms=Spread.of(audible),
            last_chunk_ms=heard.last_chunk_ms,
            gap_ms=Spread.of([gap for one in heard.utterances for gap in one.gaps_ms]),
            ran_dry=heard.ran_dry,
            ran_dry_buffered=heard.ran_dry_buffered,
            stalled_s=heard.stalled_s,
            real_time_factor=heard.real_time_factor,
            audio_s_per_s=ratio(sum(one.audio_s for one in heard.figures), wall_s),
            goodput_per_s=heard.good(limit.first_chunk_ms) / (load.seconds * len(parts)),
            generator_late_ms=Spread.of([late for part in parts for late in part.late_ms]),
            generator_share=sum(part.generator_share * part.wall_s for part in parts) / wall_s,
            memory_bytes=memory,
            parts=parts,
        )

    @property
    def is_offered(self) -> bool:
        """Whether the generator kept up with itself."""
        return self.generator_late_ms.p95 <= _MOST_LATE_MS

    @property
    def is_held(self) -> bool:
        """Whether every request was spoken, soon enough, and as good as none ran dry."""
        return (
            self.spoken == self.asked
            and self.first_chunk_ms.p95 <= self.limit.first_chunk_ms
            and self.ran_dry <= self.limit.dry_share * self.asked
        )

    def row(self, lowest: Level) -> dict[str, str]:
        """Args: lowest: the same configuration at the lowest rate, whose first chunks are compared with."""
        return {
            "configuration": self.configuration,
            "requests/s": f"{self.load.rate:g}",
            "texts": self.load.length,
            "asked": str(self.asked),
            "refused": str(self.refused),
            "in p95": f"{self.refusal_ms.p95:.1f} ms" if self.refused else "-",
            "failed": str(self.failed),
            "first chunk p50": f"{self.first_chunk_ms.p50:.1f} ms",
            "p95": f"{self.first_chunk_ms.p95:.1f} ms",
            f"p95 over {lowest.load.rate:g}/s": f"{self.first_chunk_ms.p95 / lowest.first_chunk_ms.p95:.2f}",
            "audible p50": f"{self.first_audible_ms.p50:.1f} ms",
            "last chunk p50": f"{self.last_chunk_ms.p50:.0f} ms",
            "ran dry": str(self.ran_dry),
            "buffered": str(self.ran_dry_buffered),
            "stalled": f"{self.stalled_s:.2f} s",
            "rtf p50": f"{self.real_time_factor.p50:.3f}",
            "p95 ": f"{self.real_time_factor.p95:.3f}",
            "audio s/s": f"{self.audio_s_per_s:.1f}",
            "goodput/s": f"{self.goodput_per_s:.2f}",
            "sent late p95": f"{self.generator_late_ms.p95:.1f} ms",
            "generator": f"{self.generator_share:.0%} of a core",
            "held": "yes" if self.is_held else "no" if self.is_offered else "not offered",
        }


def rows(levels: Sequence[Level]) -> list[dict[str, str]]:
    """Each level's, beside its configuration's lowest rate."""
    lowest: dict[str, Level] = {}
    for level in sorted(levels, key=lambda one: one.load.rate):
        lowest.setdefault(level.configuration, level)
    return [level.row(lowest[level.configuration]) for level in levels]


def figures(level: Mapping[str, Any], name: str) -> list[float]:
    """Of every utterance that was spoken, of a level as a report has it."""
    return [one["figures"][name] for part in level["parts"] for one in part["utterances"] if one["figures"]]


def lower_by(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """By which part of theirs our percentiles are lower."""
    p50, p95 = (f"{1 - ours[name] / theirs[name]:.1%}" for name in ("p50", "p95"))
    return f"p50 {p50} lower, p95 {p95}"
