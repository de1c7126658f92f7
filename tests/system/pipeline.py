"""The server's models one by one, without the ensemble: what a stream's frames are before they are sound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from raw import RawStream, Tensors, add_parameters, infer, model_request, strings, tensors_of
from served import Served
from talkahead.transport.messages import WindowDone
from talkahead.transport.senders import AcknowledgementSender
from talkahead.types import SegmentHeader, WindowHeader
from talkahead_client.protocol import ParameterValue

Frames = npt.NDArray[np.int64]


def frames_of(server: Served, text: str, **parameters: ParameterValue) -> list[Frames]:
    """The frames [F, C] of each segment of a text: `frontend`, `encoder` and `talker`, called in turn."""
    prompts = [_prompt(server, symbols) for symbols in _symbols(server, text, parameters)]
    windows = _windows(server, prompts, parameters)
    return [
        np.concatenate([frames for _, frames in segment])
        for _, segment in itertools.groupby(windows, key=lambda window: window[0])
    ]


def _symbols(server: Served, text: str, parameters: Mapping[str, ParameterValue]) -> list[Tensors]:
    request = model_request("frontend", {"TEXT": strings(text)})
    add_parameters(request, parameters)
    with RawStream(server.grpc, request) as stream:
        return [tensors_of(response) for response in stream if response.outputs]


def _prompt(server: Served, symbols: Tensors) -> Tensors:
    return tensors_of(infer(server.grpc, model_request("encoder", in_batch(symbols))))


def in_batch(tensors: Tensors) -> Tensors:
    """With the batch dimension that a request has."""
    return {name: values[None] for name, values in tensors.items()}


def _windows(
    server: Served, prompts: list[Tensors], parameters: Mapping[str, ParameterValue]
) -> Iterator[tuple[str, Frames]]:
    """The segment (as request id) and new frames of each window, which is acknowledged as by the vocoder; of
    a segment's first also those that are not heard."""
    requests = []
    for prompt in prompts:
        header = SegmentHeader.from_array(prompt["SEGMENT"])
        request = model_request("talker", in_batch(prompt), request_id=str(header.segment))
        add_parameters(request, parameters)
        requests.append(request)
    vocoder = AcknowledgementSender(server.socket_dir)
    try:
        with RawStream(server.grpc, *requests) as stream:
            for response in stream:
                if not response.outputs:
                    continue
                tensors = tensors_of(response)
                window = WindowHeader.from_array(tensors["WINDOW"])
                done = WindowDone(window.stream, window.generation, window.chunk)
                vocoder.send(window.address, done)
                first = window.context if window.position else 0
                frames = tensors["FRAMES"][first : window.context + window.new]
                yield response.id, frames.astype(np.int64)
    finally:
        vocoder.close()
