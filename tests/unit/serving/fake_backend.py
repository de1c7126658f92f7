"""An imitation of `triton_python_backend_utils`: what the servers use of it, kept in lists."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class Tensor:
    def __init__(self, name: str, values: Array) -> None:
        assert values.flags.c_contiguous
        self._name, self._values = name, values

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Array:
        return self._values


class TritonError(Exception):
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, CANCELLED = range(6)

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class InferenceResponse:
    def __init__(self, output_tensors: list[Tensor], error: TritonError | None = None) -> None:
        self.tensors = {tensor.name(): tensor.as_numpy() for tensor in output_tensors}
        self.error = error


@dataclass
class Sender:
    """Remembers what was sent; like Triton's, it takes nothing after the final flag.

    The calls whose numbers are in `fails_at` raise; as with Triton's, the final flag closes it even so.
    """

    sent: list[tuple[InferenceResponse | None, int]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    fails_at: frozenset[int] = frozenset()
    calls: int = 0

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        number, self.calls = self.calls, self.calls + 1
        assert not self.is_final, "a response after the final one"
        is_lost = number in self.fails_at
        self.sent.append((None if is_lost else response, flags))
        if self.is_final:
            self.ended.set()
        if is_lost:
            raise MemoryError("no shared memory")

    @property
    def is_final(self) -> bool:
        return bool(self.sent) and self.sent[-1][1] == TRITONSERVER_RESPONSE_COMPLETE_FINAL

    @property
    def responses(self) -> list[InferenceResponse]:
        return [response for response, _ in self.sent if response is not None]

    @property
    def error(self) -> TritonError | None:
        return self.responses[-1].error if self.responses else None


@dataclass
class Request:
    """Inputs without their batch dimension, which is added here."""

    inputs: Mapping[str, Array]
    options: str = ""
    id: str = ""
    sender: Sender = field(default_factory=Sender)

    def request_id(self) -> str:
        return self.id

    def parameters(self) -> str:
        return self.options

    def get_response_sender(self) -> Sender:
        return self.sender


@dataclass(eq=False)
class Metric:
    values: list[float] = field(default_factory=list)

    def set(self, value: float) -> None:
        self.values.append(value)

    def increment(self, value: float) -> None:
        self.values.append((self.values or [0])[-1] + value)

    def observe(self, value: float) -> None:
        self.values.append(value)


class Logger:
    """The server's log."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.infos: list[str] = []

    def log_error(self, message: str) -> None:
        self.errors.append(message)

    def log_warn(self, message: str) -> None:
        self.warnings.append(message)

    def log_info(self, message: str) -> None:
        self.infos.append(message)


class Metrics:
    """Makes `MetricFamily` classes, and finds what was reported."""

    def __init__(self) -> None:
        self.metrics: dict[tuple[str, str], Metric] = {}
        self.Logger = Logger()
        outer = self

        class MetricFamily:
            COUNTER, GAUGE, HISTOGRAM = range(3)

            def __init__(self, name: str, description: str, kind: int) -> None:
                self.name, self.description, self.kind = name, description, kind

            def Metric(self, labels: Mapping[str, str], buckets: list[float] | None = None) -> Metric:
                assert (buckets is not None) == (self.kind == MetricFamily.HISTOGRAM)
                return outer.metrics.setdefault((self.name, ",".join(labels.values())), Metric())

        self.MetricFamily = MetricFamily

    def by_labels(self, name: str) -> dict[str, list[float]]:
        """What a metric was told, by the values of its labels."""
        return {labels: metric.values for (family, labels), metric in self.metrics.items() if family == name}

    def __getitem__(self, name: str) -> list[float]:
        return [
            value for (family, _), metric in self.metrics.items() if family == name for value in metric.values
        ]


class FakeBackend:
    """One process's `pb_utils`."""

    TRITONSERVER_RESPONSE_COMPLETE_FINAL = TRITONSERVER_RESPONSE_COMPLETE_FINAL
    Tensor = Tensor
    InferenceResponse = InferenceResponse
    TritonError = TritonError

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.MetricFamily = self.metrics.MetricFamily
        self.Logger = self.metrics.Logger

    def get_input_tensor_by_name(self, request: Request, name: str) -> Tensor | None:
        values = request.inputs.get(name)
        return None if values is None else Tensor(name, np.ascontiguousarray(values[None]))


def string(text: str | bytes) -> Array:
    """A STRING [1] tensor."""
    return np.array([text.encode() if isinstance(text, str) else text], np.object_)
