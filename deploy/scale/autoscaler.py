"""Kubernetes' horizontal autoscaler, by the rules that the chart gives it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import simpy

from deploy.chart import Variant, variants
from deploy.scale.replica import Life, Replica

_SYNC_S = 15.0
_TOLERANCE = 0.1
_OPEN, _QUEUED = "talkahead_open_streams", "talkahead_queued_streams"


@dataclass(frozen=True)
class Rules:
    """Targets of one replica's averages, and how fast the number may grow within a period."""

    lowest: int
    highest: int
    open_streams: float
    queued: float
    share: float
    pods: int
    period_s: float

    @classmethod
    def of_chart(cls, **settings: object) -> Self:
        """Args: sections of values, as `Variant.manifests` takes them."""
        autoscaled: Variant = next(one for one in variants() if one.name == "autoscaled")
        spec: dict[str, Any] = next(
            one["spec"]
            for one in autoscaled.manifests(**settings)
            if one["kind"] == "HorizontalPodAutoscaler"
        )
        targets = {
            metric["pods"]["metric"]["name"]: metric["pods"]["target"]["averageValue"]
            for metric in spec["metrics"]
        }
        policies = {one["type"]: one for one in spec["behavior"]["scaleUp"]["policies"]}
        return cls(
            lowest=spec["minReplicas"],
            highest=spec["maxReplicas"],
            open_streams=float(targets[_OPEN]),
            queued=float(targets[_QUEUED]),
            share=policies["Percent"]["value"] / 100,
            pods=policies["Pods"]["value"],
            period_s=float(policies["Percent"]["periodSeconds"]),
        )


@dataclass
class Autoscaler:
    """Grows `ready` from its lowest number on; a new replica takes streams once it has started.

    It does not shrink: within minutes, the chart's rules do not either.
    """

    env: simpy.Environment
    rules: Rules
    make: Callable[[], Replica]
    start_s: float
    ready: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ready += [self.make() for _ in range(self.rules.lowest)]
        self._asked_for = [(-math.inf, self.rules.lowest)]
        self.env.process(self._run())

    def _run(self) -> Life:
        while True:
            yield self.env.timeout(_SYNC_S)
            wanted = min(self._wanted(), self._allowed(), self.rules.highest)
            current = self._asked_for[-1][1]
            if wanted > current:
                self._asked_for.append((self.env.now, wanted))
                for _ in range(wanted - current):
                    self.env.process(self._start())

    def _wanted(self) -> int:
        """By the metric that asks for most."""
        number = len(self.ready)
        loads = (
            sum(one.open_streams for one in self.ready) / number / self.rules.open_streams,
            sum(one.queued for one in self.ready) / number / self.rules.queued,
        )
        load = max(loads)
        return number if abs(load - 1) <= _TOLERANCE else math.ceil(number * load)

    def _allowed(self) -> int:
        """What the number was a period ago, and what may come on top."""
        since = self.env.now - self.rules.period_s
        before = [number for at, number in self._asked_for if at <= since][-1]
        return before + max(math.floor(before * self.rules.share), self.rules.pods)

    def _start(self) -> Life:
        yield self.env.timeout(self.start_s)
        self.ready.append(self.make())
