"""A gRPC server that speaks Triton's protocol and plays a script: real gRPC on loopback, no Triton."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
from talkahead_client import AudioChunk
from tritonclient.grpc import service_pb2, service_pb2_grpc

RATE_HZ = 24_000
SAMPLES = 480
"""Of each chunk."""

Response = service_pb2.ModelStreamInferResponse
Script = Callable[["FakeStream"], Iterator[Any]]

Listen = Callable[..., list[AudioChunk]]
"""Speaks a text with one of the clients, and returns what arrived."""

_DATATYPES = {"float32": "FP32", "int32": "INT32", "int64": "INT64", "bool": "BOOL"}


class FakeStream:
    """One stream as the script sees it."""

    def __init__(self, request: Any, context: grpc.ServicerContext) -> None:  # noqa: ANN401
        self.request = request
        self.context = context
        self.text = request.raw_input_contents[0][4:].decode()
        self.cancelled = threading.Event()
        self.over = threading.Event()
        self.has_returned = False
        self.is_cut = False
        context.add_callback(self._end)

    def fail(self, code: grpc.StatusCode, message: str) -> None:
        self.context.abort(code, message)

    def until_cancelled(self, limit_s: float = 10.0) -> None:
        """Keeps the client waiting; a client that cuts its connection ends the wait, too."""
        for _ in range(int(limit_s / 0.005)):
            if self.cancelled.wait(0.005) or self.over.is_set():
                return

    def _end(self) -> None:
        # gRPC tells of the end of the stream, whatever its cause; a cut comes before the script has returned.
        self.is_cut = not self.cancelled.is_set() and not self.has_returned
        self.over.set()


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """`tts` plays `script`; `control` keeps what it was asked.

    Args:
        credentials: of TLS; None: plain text.
    """

    def __init__(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        self.script: Script = speaks(3)
        self.streams: list[FakeStream] = []
        self.arrived = threading.Event()
        """Set with the first of them."""
        self.commands: list[dict[str, Any]] = []
        self.metadata: dict[str, str] = {}
        self.deaf_for = 0
        """So many cancels meet nothing, as when a cancel overtakes its request."""
        self.is_late_for = 0
        """So many commands are answered too late, as where a process is held up."""
        self._server = grpc.server(ThreadPoolExecutor(40))
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._server)
        address, server = f"127.0.0.1:{port}", self._server
        taken = (
            server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
        )
        self.address = f"127.0.0.1:{taken}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()

    def ModelStreamInfer(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        stream = FakeStream(next(requests), context)
        self.metadata = dict(context.invocation_metadata())
        self.streams.append(stream)
        self.arrived.set()
        yield from self.script(stream)
        stream.has_returned = True

    def ModelInfer(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401
        self.metadata = dict(context.invocation_metadata())
        if self.is_late_for:
            self.is_late_for -= 1
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        inputs = {
            tensor.name: raw[4:].decode() if tensor.datatype == "BYTES" else int.from_bytes(raw, "little")
            for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        self.commands.append(inputs)
        result = self._control(inputs)
        if result is None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "COMMAND: not accepted")
        raw = json.dumps(result).encode()
        response = service_pb2.ModelInferResponse()
        response.outputs.add(name="RESULT", datatype="BYTES", shape=(1, 1))
        response.raw_output_contents.append(len(raw).to_bytes(4, "little") + raw)
        return response

    def _control(self, inputs: dict[str, Any]) -> dict[str, Any] | None:
        command = inputs["COMMAND"]
        if command == "voices":
            return {"voices": ["slt", "rms"], "sample_rate_hz": RATE_HZ}
        if command == "load":
            return {"active": 2, "queued": 1, "predicted_first_chunk_ms": 41.5, "slots": 16}
        if command == "cancel":
            return {"cancelled": self._cancel(inputs.get("REQUEST_ID"))}
        return None

    def _cancel(self, request_id: str | None) -> int:
        if self.deaf_for:
            self.deaf_for -= 1
            return 0
        met = [stream for stream in self.streams if stream.request.id == request_id]
        for stream in met:
            stream.cancelled.set()
        return len(met)


def chunk(
    index: int,
    *,
    is_last: bool = False,
    is_final: bool = False,
    reason: int = 1,
    samples: int = SAMPLES,
    drafts: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0),
    words: Sequence[tuple[int, int, int, int]] = (),
) -> Any:  # noqa: ANN401
    """One response with audio: a ramp that differs from chunk to chunk.

    Args:
        drafts: tokens drafted and accepted, microseconds of decoding, the numbers of drafter and verifier.
        words: that begin in it, as WORDS has them.
    """
    audio = np.linspace(0.1, 0.1 + 0.05 * index, samples, dtype=np.float32)
    drafted, accepted, *pace = drafts
    ending = reason if is_last else 0
    stats = [77, 5, 10 * index, 10 * index, drafted, accepted, 1, ending, 12, *pace]
    tensors = {
        "AUDIO": audio,
        "SAMPLE_RATE": np.array([RATE_HZ], np.int32),
        "CHUNK_INDEX": np.array([index], np.int32),
        "IS_LAST": np.array([is_last]),
        "STATS": np.array(stats, np.int64),
        "WORDS": np.array(words, np.int32),
    }
    response = Response()
    for name, values in tensors.items():
        response.infer_response.outputs.add(
            name=name, datatype=_DATATYPES[values.dtype.name], shape=(1, values.size)
        )
        response.infer_response.raw_output_contents.append(values.tobytes())
    response.infer_response.parameters["triton_final_response"].bool_param = is_final
    return response


def final() -> Any:  # noqa: ANN401
    """The empty response that marks the end."""
    response = Response()
    response.infer_response.parameters["triton_final_response"].bool_param = True
    return response


def speaks(num_chunks: int, *, is_final_inline: bool = False) -> Script:
    """A stream as it should be; the end is marked in either of Triton's ways."""

    def script(stream: FakeStream) -> Iterator[Any]:
        for index in range(num_chunks):
            is_last = index == num_chunks - 1
            yield chunk(index, is_last=is_last, is_final=is_last and is_final_inline)
        if not is_final_inline:
            yield final()

    return script


def plays(*responses: Any) -> Script:  # noqa: ANN401
    return lambda stream: iter(responses)


def stalls(num_chunks: int) -> Script:
    """Some chunks, then nothing until the client cancels; ends as the talker ends a cancelled stream."""

    def script(stream: FakeStream) -> Iterator[Any]:
        for index in range(num_chunks):
            yield chunk(index)
        stream.until_cancelled()
        stream.fail(grpc.StatusCode.CANCELLED, "in ensemble 'tts', the stream was cancelled")

    return script


def speaks_on(stream: FakeStream) -> Iterator[object]:
    """A script: speech in large chunks, until the stream is cancelled or its client has gone."""
    index = 0
    while not (stream.cancelled.is_set() or stream.over.is_set()):
        yield chunk(index, samples=100_000)
        index += 1
    stream.fail(grpc.StatusCode.CANCELLED, "the stream was cancelled")
