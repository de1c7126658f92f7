"""What both clients promise about one utterance."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from fake_triton import RATE_HZ, SAMPLES, FakeStream, FakeTriton, Listen, chunk, final, plays, speaks, stalls
from talkahead_client import (
    Cancelled,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Reference,
    ServerBusy,
    ServerFailure,
    ServerUnavailable,
    SpeechError,
    Spoken,
    StreamBroken,
    Word,
)


@pytest.mark.parametrize("is_final_inline", [True, False])
def test_yields_every_chunk_whichever_way_the_end_is_marked(
    triton: FakeTriton, listen: Listen, is_final_inline: bool
) -> None:
    triton.script = speaks(4, is_final_inline=is_final_inline)
    chunks = listen("Hello.")
    assert [chunk.index for chunk in chunks] == [0, 1, 2, 3]
    assert [chunk.is_last for chunk in chunks] == [False, False, False, True]
    assert {chunk.sample_rate_hz for chunk in chunks} == {RATE_HZ}
    assert all(chunk.audio.dtype == np.float32 and chunk.audio.shape == (SAMPLES,) for chunk in chunks)
    assert chunks[2].audio[0] == np.float32(0.1) and chunks[2].audio[-1] == np.float32(0.2)
    assert (chunks[3].stats.stream, chunks[3].stats.frames, chunks[3].stats.stop_reason) == (77, 30, 1)
    assert [chunk.elapsed_s for chunk in chunks] == sorted(chunk.elapsed_s for chunk in chunks)
    assert triton.commands == []


def test_words_are_told_where_they_begin_in_the_whole(triton: FakeTriton, listen: Listen) -> None:
    def says_words(stream: FakeStream) -> Iterator[object]:
        yield chunk(0, words=[(0, 5, 0, 1), (5, 6, SAMPLES // 2, 2)])
        yield chunk(1)
        yield chunk(2, is_last=True, is_final=True, words=[(7, 12, SAMPLES // 4, 0)])

    triton.script = says_words
    first, none, last = listen("Hello, world")
    chunk_s = SAMPLES / RATE_HZ
    assert first.words == (Word(0, 5, 0.0, Spoken.WORD), Word(5, 6, chunk_s / 2, Spoken.PAUSE))
    assert none.words == () and last.words == (Word(7, 12, 2.25 * chunk_s, Spoken.SEGMENT),)


def test_sends_what_was_asked(triton: FakeTriton, listen: Listen) -> None:
    recording = np.linspace(-1, 1, 5, dtype=np.float32)
    parameters = {"temperature": 0.5, "seed": 3, "verifier": "match", "pin_draft": True}
    listen("Grüße.", voice="slt", reference=Reference(recording, "hm"), **parameters)
    request = triton.streams[0].request
    sent = dict(zip((tensor.name for tensor in request.inputs), request.raw_input_contents, strict=True))
    assert sent["TEXT"][4:].decode() == "Grüße." and sent["VOICE"][4:] == b"slt"
    assert sent["REFERENCE_AUDIO"] == recording.tobytes() and sent["REFERENCE_TEXT"][4:] == b"hm"
    assert [tuple(tensor.shape) for tensor in request.inputs] == [(1, 1), (1, 1), (1, 5), (1, 1)]
    parameters = request.parameters
    assert parameters["temperature"].double_param == 0.5 and parameters["seed"].int64_param == 3
    assert parameters["verifier"].string_param == "match" and parameters["pin_draft"].bool_param
    assert parameters["triton_enable_empty_final_response"].bool_param
    assert "triton_grpc_error" not in triton.metadata  # crashes Triton 24.10
    assert uuid.UUID(request.id).version == 4


def test_a_recording_is_one_channel() -> None:
    with pytest.raises(InvalidRequest, match=r"reference: audio of shape \(2, 5\) is not accepted"):
        Reference(np.zeros((2, 5), np.float32), "hm")


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "VOICE: 'x' is not accepted", InvalidRequest),
        (grpc.StatusCode.NOT_FOUND, "no such model", NotFound),
        (grpc.StatusCode.UNAVAILABLE, "not ready", ServerUnavailable),
        (grpc.StatusCode.CANCELLED, "by another client", Cancelled),
        (grpc.StatusCode.INTERNAL, "it failed", ServerFailure),
        (grpc.StatusCode.UNKNOWN, "it failed", ServerFailure),
        (grpc.StatusCode.UNAVAILABLE, "RESOURCE_EXHAUSTED: 64 streams wait; try in 3 s", ServerBusy),
    ],
)
def test_an_error_keeps_its_code_and_loses_the_ensembles_name(
    triton: FakeTriton, listen: Listen, code: grpc.StatusCode, message: str, expected: type[SpeechError]
) -> None:
    triton.script = lambda stream: stream.fail(code, f"in ensemble 'tts', {message}") or iter(())
    with pytest.raises(expected) as caught:
        listen("Hello.")
    assert type(caught.value) is expected
    assert caught.value.code == (expected.code if expected is not ServerFailure else code.name)
    assert str(caught.value) == message.removeprefix("RESOURCE_EXHAUSTED: ")


def test_an_error_in_a_message_is_an_error_too(triton: FakeTriton, listen: Listen) -> None:
    response = final()
    response.error_message = "in ensemble 'tts', INVALID_ARGUMENT: TEXT: '' is not accepted"
    triton.script = plays(response)
    with pytest.raises(InvalidRequest, match=r"^TEXT: '' is not accepted$"):
        listen("")
    assert triton.commands == []


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        ((chunk(0), chunk(2, is_last=True, is_final=True)), "chunk 2 arrived, expected 1"),
        ((chunk(0), chunk(0)), "chunk 0 arrived, expected 1"),
        ((chunk(0), final()), "early, after 1 chunks"),
        ((), "early, after 0 chunks"),
        ((chunk(0, is_last=True), chunk(1)), r"chunk 1 arrived after the last one \(0\)"),
        ((chunk(0, is_last=True, is_final=True), final()), "a response arrived after the final one"),
    ],
)
def test_a_stream_that_breaks_the_protocol_is_an_error(
    triton: FakeTriton, listen: Listen, responses: tuple[object, ...], message: str
) -> None:
    triton.script = plays(*responses)
    with pytest.raises(StreamBroken, match=message):
        listen("Hello.")


def test_an_unreadable_response_is_an_error(triton: FakeTriton, listen: Listen) -> None:
    short, strange = chunk(0), chunk(0)
    del short.infer_response.outputs[-1], short.infer_response.raw_output_contents[-1]
    strange.infer_response.outputs[0].datatype = "FP8"
    for response in (short, strange):
        triton.script = plays(response)
        with pytest.raises(StreamBroken, match="cannot be read"):
            listen("Hello.")


def test_a_gap_cancels_the_rest_politely(triton: FakeTriton, listen: Listen) -> None:
    def script(stream: FakeStream) -> Iterator[object]:
        yield from (chunk(0), chunk(5))
        stream.until_cancelled()

    triton.script = script
    with pytest.raises(StreamBroken, match="chunk 5 arrived, expected 1"):
        listen("Hello.")
    assert triton.commands == [{"COMMAND": "cancel", "REQUEST_ID": triton.streams[0].request.id}]
    assert triton.streams[0].over.wait(1) and not triton.streams[0].is_cut


def test_a_cancelled_stream_is_not_a_finished_one(triton: FakeTriton, listen: Listen) -> None:
    triton.script = plays(chunk(0), chunk(1, is_last=True, is_final=True, reason=4))
    with pytest.raises(Cancelled):
        listen("Hello.")
    triton.script = plays(chunk(0), chunk(1, is_last=True, is_final=True, reason=5))
    with pytest.raises(ServerFailure):
        listen("Hello.")


def test_an_empty_chunk_is_counted_but_not_played(triton: FakeTriton, listen: Listen) -> None:
    triton.script = plays(chunk(0), chunk(1, samples=0), chunk(2, is_last=True, is_final=True))
    assert [chunk.index for chunk in listen("Hello.")] == [0, 2]


@pytest.mark.parametrize("num_chunks", [0, 2])
def test_the_deadline_of_a_chunk(triton: FakeTriton, listen: Listen, num_chunks: int) -> None:
    triton.script = stalls(num_chunks)
    with pytest.raises(DeadlineExceeded, match=rf"no chunk for 0.1 s; {num_chunks} chunks had arrived"):
        listen("Hello.", chunk_deadline_s=0.1)
    assert triton.streams[0].cancelled.is_set() and not triton.streams[0].is_cut


def test_the_deadline_of_an_utterance(triton: FakeTriton, listen: Listen) -> None:
    def script(stream: FakeStream) -> Iterator[object]:
        for index in range(100):
            yield chunk(index)
            if stream.cancelled.wait(0.02):
                return

    triton.script = script
    began = time.perf_counter()
    with pytest.raises(DeadlineExceeded, match=r"not complete after 0.15 s"):
        listen("Hello.", deadline_s=0.15)
    assert time.perf_counter() - began < 1.5
    assert triton.streams[0].cancelled.is_set()


def test_a_request_that_cannot_be_written_is_refused_here(triton: FakeTriton, listen: Listen) -> None:
    with pytest.raises(InvalidRequest, match="TEXT: cannot be written as UTF-8"):
        listen("a\ud800b")
    with pytest.raises(InvalidRequest, match="drafter: cannot be written as UTF-8"):
        listen("Hello.", drafter="\ud800")
    with pytest.raises(InvalidRequest, match=r"seed: .* does not fit 64 bits"):
        listen("a", seed=2**63)
    with pytest.raises(InvalidRequest, match=r"nodes: .* is not accepted"):
        listen("a", nodes=[1])
    assert triton.streams == []


def test_a_server_that_dies_breaks_the_stream(triton: FakeTriton, listen: Listen) -> None:
    def script(stream: FakeStream) -> Iterator[object]:
        yield chunk(0)
        triton.close()

    triton.script = script
    with pytest.raises((StreamBroken, Cancelled)):
        listen("Hello.")
    with pytest.raises(ServerUnavailable):
        listen("Hello.")
