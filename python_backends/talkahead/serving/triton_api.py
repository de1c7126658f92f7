"""The part of Triton's `triton_python_backend_utils` that the models use, and tensors to values and back.

`model.py` passes the real module in, so every server runs in a test with an imitation.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from talkahead.errors import BadRequest, Code, TalkaheadError
from talkahead.telemetry import Metrics

Array = npt.NDArray[Any]

_CODES = {
    Code.INVALID_ARGUMENT: "INVALID_ARG",
    Code.NOT_FOUND: "NOT_FOUND",
    # Triton has no code for this; a client that sees UNAVAILABLE tries again later, which is right.
    Code.RESOURCE_EXHAUSTED: "UNAVAILABLE",
    Code.CANCELLED: "CANCELLED",
    Code.UNAVAILABLE: "UNAVAILABLE",
    Code.INTERNAL: "INTERNAL",
}


class ResponseSender(Protocol):
    """One request's way back; usable from any thread until the final flag was sent."""

    def send(self, response: object = None, flags: int = 0) -> None: ...


class InferenceRequest(Protocol):
    """One request as the Python backend hands it over; its tensors live until `execute` returns."""

    def request_id(self) -> str: ...
    def parameters(self) -> str: ...
    def get_response_sender(self) -> ResponseSender: ...


class TritonApi(Metrics, Protocol):
    """`pb_utils`."""

    TRITONSERVER_RESPONSE_COMPLETE_FINAL: int
    Tensor: Any
    InferenceResponse: Any
    TritonError: Any
    Logger: Any

    def get_input_tensor_by_name(self, request: InferenceRequest, name: str) -> Any: ...  # noqa: ANN401


class Wire:
    """Reads requests and builds responses. Every tensor has a leading batch dimension of 1 on the wire."""

    def __init__(self, api: TritonApi) -> None:
        self._api = api
        self.final = api.TRITONSERVER_RESPONSE_COMPLETE_FINAL

    def optional(self, request: InferenceRequest, name: str) -> Array | None:
        """A copy of an input without its batch dimension; None when the client left it out."""
        tensor = self._api.get_input_tensor_by_name(request, name)
        if tensor is None:
            return None
        values = tensor.as_numpy()
        return np.array(values.reshape(values.shape[1:]))

    def array(self, request: InferenceRequest, name: str) -> Array:
        values = self.optional(request, name)
        if values is None:
            raise BadRequest(name, None, "a tensor of this name")
        return values

    def text(self, request: InferenceRequest, name: str) -> str | None:
        """A STRING [1] input; None when the client left it out."""
        values = self.optional(request, name)
        if values is None:
            return None
        raw = bytes(values.reshape(-1)[0])
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest(name, raw, f"UTF-8 (byte {error.start} is not)") from error

    def response(self, **tensors: Array) -> object:
        outputs = [
            self._api.Tensor(name, np.ascontiguousarray(value[None])) for name, value in tensors.items()
        ]
        return self._api.InferenceResponse(output_tensors=outputs)

    def failure(self, error: Exception) -> object:
        """A response that ends the request with an error; what is not ours to expect is INTERNAL."""
        if isinstance(error, TalkaheadError):
            code, message = error.code, str(error)
        else:
            code, message = Code.INTERNAL, f"{type(error).__name__}: {error}"
        # On a stream, Triton hands on the text alone.
        triton_error = self._api.TritonError(
            f"{code}: {message}", getattr(self._api.TritonError, _CODES[code])
        )
        return self._api.InferenceResponse(output_tensors=[], error=triton_error)
