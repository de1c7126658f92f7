"""What perf_analyzer exports of one load.

It says that it measures the first response of a decoupled model and takes the last one; the profile that it
exports has the times of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from talkahead_client.protocol import STATS, Stats

from instruments.report import Spread

_IS_LAST = "IS_LAST"


@dataclass(frozen=True)
class Profile:
    """One load of one model. Times in milliseconds since each request, one entry per request.

    Args:
        mode, value: `concurrency`: so many at once; `request_rate`: so many a second, which wait for nobody.
        asked_per_s: requests a second, from the first to the last: a random schedule of few is not its rate.
        pairs: drafter and verifier that the server reports, and in how many requests; of `tts`.
        last_ms: of the response with the last audio, or the last one.
        own_first_ms: the median first chunk that our generator sees under the same load; None: it was not
            asked.
    """

    model: str
    mode: str
    value: float
    pairs: dict[str, int]
    requests: int
    requests_per_s: float
    asked_per_s: float
    first_ms: Spread
    last_ms: Spread
    first_samples_ms: tuple[float, ...]
    last_samples_ms: tuple[float, ...]
    own_first_ms: float | None = None

    @classmethod
    def of(cls, model: str, experiment: Mapping[str, Any]) -> Self:
        requests = experiment["requests"]
        first, last = (
            tuple(_elapsed_ms(request, position(request)) for request in requests)
            for position in (lambda request: 0, _last_audio)
        )
        ends = [request["response_timestamps"][-1] for request in requests]
        begins = [request["timestamp"] for request in requests]
        asking_ns, wall_ns = max(begins) - min(begins), max(ends) - min(begins)
        return cls(
            model=model,
            mode=str(experiment["experiment"]["mode"]),
            value=float(experiment["experiment"]["value"]),
            pairs=dict(Counter(_pair(request) for request in requests if _has(request, STATS.name))),
            requests=len(requests),
            requests_per_s=1e9 * len(requests) / wall_ns,
            asked_per_s=1e9 * (len(requests) - 1) / max(1, asking_ns),
            first_ms=Spread.of(first),
            last_ms=Spread.of(last),
            first_samples_ms=first,
            last_samples_ms=last,
        )

    def row(self) -> dict[str, str]:
        own = self.own_first_ms
        return {
            "model": self.model,
            "load": f"{self.value:g} at once" if self.mode == "concurrency" else f"{self.value:g}/s",
            "requests": str(self.requests),
            "asked/s": f"{self.asked_per_s:.2f}",
            "requests/s": f"{self.requests_per_s:.2f}",
            "first response p50": f"{self.first_ms.p50:.1f} ms",
            "first p95": f"{self.first_ms.p95:.1f} ms",
            "last response p50": f"{self.last_ms.p50:.1f} ms",
            "last p95": f"{self.last_ms.p95:.1f} ms",
            "ours, first p50": "-" if own is None else f"{own:.1f} ms ({own / self.first_ms.p50:.2f})",
        }


def _elapsed_ms(request: Mapping[str, Any], response: int) -> float:
    return float(request["response_timestamps"][response] - request["timestamp"]) / 1e6


def _last_audio(request: Mapping[str, Any]) -> int:
    """Index of the response that says so; an empty one, which carries nothing but the end, may follow it."""
    if not _has(request, _IS_LAST):
        return -1
    for index, outputs in enumerate(request["response_outputs"]):
        if outputs.get(_IS_LAST) is True:
            return index
    raise SystemExit("perf_analyzer: a stream ended without its last chunk")


def _pair(request: Mapping[str, Any]) -> str:
    return Stats.from_wire(request["response_outputs"][_last_audio(request)][STATS.name]).pair


def _has(request: Mapping[str, Any], output: str) -> bool:
    return any(output in outputs for outputs in request["response_outputs"])
