"""gRPC as it is, for requests that the client would not send and answers that it would not show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np
import pytest
from talkahead_client import protocol, wire
from talkahead_client.protocol import ParameterValue
from tritonclient.grpc import service_pb2, service_pb2_grpc

Tensor = np.ndarray[Any, Any]
Tensors = dict[str, Tensor]

_DEADLINE_S = 60.0
_DATATYPES = {"int32": "INT32", "int64": "INT64", "float32": "FP32", "object": "BYTES"}


def speech_request(
    text: str | bytes | None,
    tensors: Mapping[str, Tensor] | None = None,
    *,
    request_id: str = "",
    parameters: Mapping[str, ParameterValue] | None = None,
    is_final_wanted: bool = True,
) -> service_pb2.ModelInferRequest:
    """A request to the ensemble; further tensors go with the shape and type that they have."""
    given = {"TEXT": strings(text)} if text is not None else {}
    request = model_request(protocol.SPEECH_MODEL, {**given, **(tensors or {})}, request_id=request_id)
    if is_final_wanted:
        request.parameters["triton_enable_empty_final_response"].bool_param = True
    add_parameters(request, parameters or {})
    return request


def add_parameters(request: service_pb2.ModelInferRequest, parameters: Mapping[str, ParameterValue]) -> None:
    for name, value in parameters.items():
        wire._set_parameter(request, name, value)


def model_request(
    model: str, tensors: Mapping[str, Tensor], *, request_id: str = ""
) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    for name, values in tensors.items():
        add_tensor(request, name, values)
    return request


def strings(*values: str | bytes, shape: tuple[int, ...] | None = None) -> Tensor:
    """A STRING tensor, [1, n] unless told otherwise."""
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return np.array(encoded, np.object_).reshape(shape or (1, len(values)))


def add_tensor(request: service_pb2.ModelInferRequest, name: str, values: Tensor) -> None:
    request.inputs.add(name=name, datatype=_DATATYPES[values.dtype.name], shape=values.shape)
    if values.dtype == np.object_:
        items = (bytes(item) for item in values.reshape(-1))
        request.raw_input_contents.append(b"".join(len(item).to_bytes(4, "little") + item for item in items))
    else:
        request.raw_input_contents.append(values.tobytes())


def tensors_of(response: service_pb2.ModelInferResponse) -> Tensors:
    """Outputs by name, in their shapes without the batch dimension."""
    flat = wire.read_tensors(response)
    return {output.name: flat[output.name].reshape(list(output.shape)[1:]) for output in response.outputs}


class RawStream:
    """Requests on one stream of a connection of their own."""

    def __init__(self, address: str, *requests: service_pb2.ModelInferRequest) -> None:
        self._channel = grpc.insecure_channel(address, wire.CHANNEL_OPTIONS)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._call = stub.ModelStreamInfer(iter(requests), timeout=_DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.vanish()

    def __iter__(self) -> Iterator[service_pb2.ModelInferResponse]:
        """Responses until the server closes the stream; raises Refused where one is an error."""
        for message in self._call:
            if message.error_message:
                raise Refused(message.error_message)
            yield message.infer_response

    def first(self) -> service_pb2.ModelInferResponse:
        return next(iter(self))

    def vanish(self) -> None:
        """Cuts the connection. A stream that runs gets no farewell."""
        self._channel.close()


class Refused(Exception):
    """The error that a stream ended with; its text is the server's."""


def infer(address: str, request: service_pb2.ModelInferRequest) -> service_pb2.ModelInferResponse:
    """One answer of a model that is not decoupled."""
    with grpc.insecure_channel(address, wire.CHANNEL_OPTIONS) as channel:
        return service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=_DEADLINE_S)


def refusal(address: str, request: service_pb2.ModelInferRequest) -> str:
    """Why a request is refused: the error is all that comes, and comes once."""
    with RawStream(address, request) as stream:
        responses = iter(stream)
        with pytest.raises(Refused) as caught:
            raise AssertionError(f"answered instead of refused: {next(responses)}")
        assert list(stream) == []
    return str(caught.value)
