"""The part of Triton's `triton_python_backend_utils` that the models use, and tensors to values and back.

`model.py` passes the real module in, so every server runs in a test with an imitation.
"""

from __future__ import annotations

from collections.abc import Callable
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

    def get_input_tensor_by_name(self, request: InferenceRequest, name: str) -> Any: ...  # noqa: ANN401


class Wire:
    """Reads requests, builds responses, ends streams. On the wire every tensor has a leading batch dimension
    of 1.
    """

    def __init__(self, api: TritonApi) -> None:
        self._api = api
        self._log = api.Logger
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

    def end(
        self, what: str, sender: ResponseSender, *choices: Callable[[], object], is_apart: bool = True
    ) -> bool:
        """Ends a request with the first of some responses that Triton takes; whether it was the first.

        Like `refuse` and `close` it never raises, so that neighbours go on: what fails is logged, and where
        no choice is left the request ends with an error.

        Args:
            is_apart: the final flag follows in a call of its own, which may still end the request where no
                response could be sent: the flag closes Triton's sender, whatever becomes of the rest of its
                call. Not so where the next step of an ensemble may answer with an error at once: a flag that
                comes after an error is not counted, and the ensemble's request never ends.
        """
        failures: list[Exception] = []
        for choice in choices:
            try:
                sender.send(choice(), flags=0 if is_apart else self.final)
            except Exception as error:
                self.note(what, error)
                failures.append(error)
            else:
                if is_apart:
                    self.close(what, sender)
                return not failures
        self._excuse(what, sender, failures[-1])
        return False

    def refuse(self, what: str, sender: ResponseSender, error: Exception) -> None:
        """Ends a request with an error; what is not ours to expect is logged."""
        if not isinstance(error, TalkaheadError):
            self.note(what, error)
        self._excuse(what, sender, error)

    def close(self, what: str, sender: ResponseSender) -> None:
        """Ends a request that has got all its responses."""
        try:
            sender.send(flags=self.final)
        except Exception as error:
            self.note(what, error)

    def note(self, what: str, error: Exception) -> None:
        """In the server's log."""
        self._log.log_error(f"{what}: {type(error).__name__}: {error}")

    def _excuse(self, what: str, sender: ResponseSender, error: Exception) -> None:
        try:
            # In one call, for the flag would not be counted after an error.
            sender.send(self.failure(error), flags=self.final)
        except Exception as failure:
            self.note(what, failure)
            self.close(what, sender)
