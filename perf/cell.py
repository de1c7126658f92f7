"""One configuration under one load: its figures, and the parts that they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from instruments import report
from instruments.report import Spread
from perf import part
from perf.gain import Gain
from perf.heard import TIMELY_MS, Heard
from perf.part import Part
from perf.stages import Stage
from perf.streams import Load, Mode


@dataclass(frozen=True)
class Cell:
    """One mode with one number of streams.

    Args:
        configuration: what was asked for, in words.
        pairs: drafter and verifier that the server reports, and in how many utterances.
        wall_s: of all parts.
        first_chunk_ms, first_audible_ms: under the load.
        burst_ms: first chunks of the requests that all streams sent at the same moment, at the beginning of
            each part; of none where they did not.
        gap_ms: between the arrivals of neighbouring chunks.
        last_chunk_ms, ran_dry, ran_dry_buffered, stalled_s: as `Heard` has them.
        goodput_per_s: utterances a second whose first chunk came within `TIMELY_MS` and that never ran dry.
        audio_s_per_s: under the full load, until the first stream of a part has spoken its last.
        decode_s_per_audio_s: the talker's, of utterances under the full load.
        tokens_per_step: that a step of the talker added to the speech; 1 without a draft.
        generator_share: of one core, that asking and hearing took.
        memory_bytes: of the server's processes at the end, where it was started for the measurement.
        requests_a_pass: by model, that Triton handed over together, where its metrics are told.
        gain: over the configuration beside it.
    """

    configuration: str
    mode: Mode
    streams: int
    pairs: dict[str, int]
    wall_s: float
    spoken: int
    failed: int
    first_chunk_ms: Spread
    first_audible_ms: Spread
    burst_ms: Spread
    last_chunk_ms: Spread
    gap_ms: Spread
    ran_dry: int
    ran_dry_buffered: int
    stalled_s: float
    goodput_per_s: float
    real_time_factor: Spread
    audio_s_per_s: float
    decode_s_per_audio_s: float
    tokens_per_step: float
    generator_share: float
    stages: list[Stage]
    parts: list[Part]
    memory_bytes: dict[str, int] = field(default_factory=dict)
    requests_a_pass: dict[str, float] = field(default_factory=dict)
    gain: Gain | None = None

    @classmethod
    def of(cls, configuration: str, load: Load, parts: list[Part], passed: list[Stage]) -> Self:
        utterances = [utterance for each in parts for utterance in each.utterances]
        heard = Heard.of(utterances)
        stats = [utterance.stats for utterance in utterances if utterance.stats is not None]
        under_load = [figures for each in parts for figures in each.under_load]
        audible = [one.first_audible_ms for one in under_load if one.first_audible_ms is not None]
        steps = sum(one.target_steps for one in stats)
        wall_s = sum(each.wall_s for each in parts)
        return cls(
            configuration=configuration,
            mode=load.mode,
            streams=load.streams,
            pairs=dict(Counter(one.pair for one in stats)),
            wall_s=wall_s,
            spoken=len(heard.figures),
            failed=len(utterances) - len(heard.figures),
            first_chunk_ms=Spread.of([one.first_chunk_ms for one in under_load]),
            first_audible_ms=Spread.of(audible),
            burst_ms=Spread.of([one.first_chunk_ms for each in parts for one in each.burst]),
            last_chunk_ms=heard.last_chunk_ms,
            gap_ms=Spread.of([gap for utterance in utterances for gap in utterance.gaps_ms]),
            ran_dry=heard.ran_dry,
            ran_dry_buffered=heard.ran_dry_buffered,
            stalled_s=heard.stalled_s,
            goodput_per_s=heard.good(TIMELY_MS) / wall_s,
            real_time_factor=heard.real_time_factor,
            audio_s_per_s=part.audio_s_per_s(parts),
            decode_s_per_audio_s=part.decode_s_per_audio_s(parts),
            tokens_per_step=part.ratio(steps + sum(one.accepted for one in stats), steps),
            generator_share=sum(each.generator_share * each.wall_s for each in parts) / wall_s,
            stages=passed,
            parts=parts,
        )

    @property
    def pair(self) -> str:
        """What most utterances were given."""
        return max(self.pairs, key=self.pairs.__getitem__, default="none spoken")

    @property
    def batches(self) -> str:
        return ", ".join(f"{model} {mean:.2f}" for model, mean in self.requests_a_pass.items())

    def over(self, other: Cell) -> Cell:
        """With what it gains over another that was measured by turns with it."""
        return replace(self, gain=Gain.of(self.parts, other.configuration, other.parts))

    def row(self) -> dict[str, str]:
        return {
            "configuration": self.configuration,
            "mode": self.mode,
            "streams": str(self.streams),
            "spoken": str(self.spoken),
            "failed": str(self.failed),
            "first chunk p50": f"{self.first_chunk_ms.p50:.1f} ms",
            "p95": f"{self.first_chunk_ms.p95:.1f} ms",
            "audible p50": f"{self.first_audible_ms.p50:.1f} ms",
            "audible p95": f"{self.first_audible_ms.p95:.1f} ms",
            "at once p50": f"{self.burst_ms.p50:.1f} ms" if self.burst_ms.count else "-",
            "at once p95": f"{self.burst_ms.p95:.1f} ms" if self.burst_ms.count else "-",
            "gap p50": f"{self.gap_ms.p50:.1f} ms",
            "gap p95": f"{self.gap_ms.p95:.1f} ms",
            "last chunk p50": f"{self.last_chunk_ms.p50:.0f} ms",
            "ran dry": str(self.ran_dry),
            "buffered": str(self.ran_dry_buffered),
            "stalled": f"{self.stalled_s:.2f} s",
            "goodput/s": f"{self.goodput_per_s:.2f}",
            "rtf p50": f"{self.real_time_factor.p50:.3f}",
            "rtf p95": f"{self.real_time_factor.p95:.3f}",
            "audio s/s": f"{self.audio_s_per_s:.2f}",
        }

    def gain_row(self) -> dict[str, str]:
        """Only of a cell that has a gain."""
        assert self.gain is not None
        return {
            "mode": self.mode,
            "streams": str(self.streams),
            "drafts": self.pair,
            "tokens/step": f"{self.tokens_per_step:.2f}",
            "decoding": f"{1e3 * self.decode_s_per_audio_s:.1f} ms/s of audio",
            "talker's speed": str(self.gain.talker_speed),
            "audio s/s": str(self.gain.audio_s_per_s),
            "first chunk p50": str(self.gain.first_chunk_p50),
            "p95": str(self.gain.first_chunk_p95),
            f"against {self.gain.over}": self.gain.verdict,
        }

    def stage_row(self, stage: Stage) -> dict[str, str]:
        return {
            "stage": stage.name,
            "passages": str(stage.count),
            "mean": f"{stage.mean_ms:.2f} ms",
            "p50": f"{stage.p50_ms:.2f} ms",
            "p95": f"{stage.p95_ms:.2f} ms",
            "per utterance": f"{1e3 * stage.total_s / max(1, self.spoken):.1f} ms",
            "of the time": f"{stage.total_s / self.wall_s:.1%}",
        }


def tables(cells: Sequence[Cell]) -> str:
    """For a terminal: all figures, what was gained, and the stages of what was measured for its own sake."""
    texts = [report.table([cell.row() for cell in cells])]
    gained = [cell for cell in cells if cell.gain is not None]
    if gained:
        texts.append(report.table([cell.gain_row() for cell in gained]))
    for cell in gained or cells:
        if cell.stages:
            title = f"by stage, {cell.configuration}, {cell.mode}, {cell.streams} streams"
            texts.append(f"{title}\n{report.table([cell.stage_row(stage) for stage in cell.stages])}")
            texts.append(f"requests a pass: {cell.batches}")
    return "\n\n".join(texts)
