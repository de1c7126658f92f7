"""What the models' processes put on the metrics page, by asking their telemetry."""

from __future__ import annotations

from dataclasses import dataclass, field

from talkahead.telemetry import EncoderTelemetry, FrontendTelemetry, TalkerTelemetry, VocoderTelemetry

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_PARTS = {COUNTER: ("",), GAUGE: ("",), HISTOGRAM: ("_bucket", "_sum", "_count")}


class _Metric:
    def set(self, value: float) -> None: ...


@dataclass
class Exported:
    """A `pb_utils` that writes down which metrics are made: their kind, and what each says of itself."""

    kinds: dict[str, str] = field(default_factory=dict)
    abouts: dict[str, str] = field(default_factory=dict)
    Logger: None = None

    def __post_init__(self) -> None:
        exported = self

        class Family:
            COUNTER, GAUGE, HISTOGRAM = COUNTER, GAUGE, HISTOGRAM

            def __init__(self, name: str, description: str, kind: str) -> None:
                exported.kinds[name] = kind
                exported.abouts[name] = description

            def Metric(self, labels: dict[str, str], buckets: list[float] | None = None) -> _Metric:
                return _Metric()

        self.MetricFamily = Family

    @property
    def gauges(self) -> set[str]:
        return {name for name, kind in self.kinds.items() if kind == GAUGE}

    @property
    def series(self) -> set[str]:
        """The names that an expression may use."""
        return {name + part for name, kind in self.kinds.items() for part in _PARTS[kind]}


def exported() -> Exported:
    """By all models together."""
    page = Exported()
    talker = TalkerTelemetry(page)
    talker.steps_by_way()
    models = (
        FrontendTelemetry(page),
        EncoderTelemetry(page),
        talker,
        VocoderTelemetry(page),
    )
    for model in models:
        model.close()
    return page
