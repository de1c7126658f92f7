"""Protobuf messages to Python values and back; the only module that knows the layout of Triton's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2

from talkahead_client import protocol
from talkahead_client.errors import InvalidRequest, StreamBroken
from talkahead_client.protocol import ParameterValue, Tensor
from talkahead_client.reference import Reference

TensorValue = str | bytes | int | npt.NDArray[np.float32]

ROUTING_KEY = "talkahead-request-id"
"""Metadata by which a proxy sends a cancel to the replica that speaks the stream."""

REPLICA_KEY = "talkahead-replica"
"""Metadata in which a proxy that keeps no table names that replica, with the first chunk."""

CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # gRPC's own back-off grows to two minutes; a server that restarted would look dead for as long.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_DTYPES = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}


def speech_request(
    text: str,
    voice: str | None,
    reference: Reference | None,
    request_id: str,
    parameters: Mapping[str, ParameterValue],
) -> service_pb2.ModelInferRequest:
    """One utterance; asks for a final response even where it carries no audio."""
    inputs: dict[Tensor, TensorValue] = {protocol.TEXT: text}
    if voice is not None:
        inputs[protocol.VOICE] = voice
    if reference is not None:
        inputs[protocol.REFERENCE_AUDIO] = reference.audio
        inputs[protocol.REFERENCE_TEXT] = reference.text
    request = infer_request(protocol.SPEECH_MODEL, inputs, request_id)
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, value in parameters.items():
        _set_parameter(request, name, value)
    return request


Metadata = tuple[tuple[str, str], ...]


def replica_metadata(received: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
    """What a proxy has said of the replica that speaks a stream, for a call that must reach that one."""
    return tuple((name, str(value)) for name, value in received or () if name == REPLICA_KEY)


def call_metadata(request_id: str | None) -> Metadata:
    """Of a call about one stream, in ASCII.

    Not `triton_grpc_error: true`, which asks for real gRPC statuses: with it, Triton 24.10 crashes at about
    one in forty failed streams. The server names the code in the error's text, and it has more codes.
    """
    return () if request_id is None else ((ROUTING_KEY, quote(request_id, safe="")),)


def control_request(
    command: str, stream: int | None = None, request_id: str | None = None
) -> service_pb2.ModelInferRequest:
    inputs: dict[Tensor, TensorValue] = {protocol.COMMAND: command}
    if stream is not None:
        inputs[protocol.STREAM] = stream
    if request_id is not None:
        inputs[protocol.REQUEST_ID] = request_id
    return infer_request(protocol.CONTROL_MODEL, inputs)


def control_result(response: service_pb2.ModelInferResponse) -> Any:  # noqa: ANN401
    """RESULT, parsed from JSON."""
    try:
        return json.loads(read_tensors(response)[protocol.RESULT.name])
    except (KeyError, ValueError) as error:
        raise StreamBroken(f"the server's answer to a control command cannot be read: {error}") from error


def infer_request(
    model: str, inputs: Mapping[Tensor, TensorValue], request_id: str = ""
) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    for tensor, value in inputs.items():
        length = value.size if isinstance(value, np.ndarray) else 1
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=(1, length))
        request.raw_input_contents.append(_encode(tensor, value))
    return request


def read_tensors(response: service_pb2.ModelInferResponse) -> dict[str, Any]:
    """Outputs by name: flat read-only arrays, or bytes for a string."""
    try:
        return {
            output.name: _decode(output.datatype, raw)
            for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
        }
    except (KeyError, ValueError) as error:
        raise StreamBroken(f"a response cannot be read: {error!r}") from error


def is_final(response: service_pb2.ModelInferResponse) -> bool:
    return bool(response.parameters["triton_final_response"].bool_param)


def _encode(tensor: Tensor, value: TensorValue) -> bytes:
    if isinstance(value, np.ndarray | int):
        return np.asarray(value, _DTYPES[tensor.datatype]).tobytes()
    content = value if isinstance(value, bytes) else _utf8(tensor.name, value)
    return len(content).to_bytes(4, "little") + content


def _utf8(name: str, value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{name}: cannot be written as UTF-8: {error}") from error


def _decode(datatype: str, raw: bytes) -> bytes | npt.NDArray[Any]:
    return raw[4:] if datatype == "BYTES" else np.frombuffer(raw, _DTYPES[datatype])


def _set_parameter(request: service_pb2.ModelInferRequest, name: str, value: ParameterValue) -> None:
    slot = request.parameters[name]
    if isinstance(value, bool):
        slot.bool_param = value
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidRequest(f"{name}: {value} does not fit 64 bits")
        slot.int64_param = value
    elif isinstance(value, float):
        slot.double_param = value
    elif isinstance(value, str):
        _utf8(name, value)  # protobuf's own refusal names no field
        slot.string_param = value
    else:
        raise InvalidRequest(f"{name}: {value!r} is not accepted; allowed: a string, number or boolean")
