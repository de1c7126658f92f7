"""Hundreds of random requests, good and bad, some left half-way: each is answered, and nothing is lost."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from hearing import HOP, speak
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from raw import RawStream, Refused, Tensors, speech_request, strings, tensors_of
from served import Served
from talkahead_client import Client
from talkahead_client.protocol import ParameterValue
from texts import SENTENCES
from tritonclient.grpc import service_pb2
from waiting import eventually

AT_ONCE = 5
ROUNDS = 110
SHORT = 0.3
"""Longest speech of a request, in seconds."""

REFERENCE: dict[str, Any] = {"text": SENTENCES[3], "seed": 77, "max_seconds": 2.0}

REASON = re.compile(
    r"INVALID_ARGUMENT: .+ is not accepted; allowed: ."
    # Triton's own words, for tensors that do not fit config.pbtxt.
    r"|\[request id: [^\]]*\] .*(input|batch-size).*'tts'|unexpected inference input '\w+' for model 'tts'"
    r"|incomplete string data for inference input '\w+', expecting string of length",
    re.DOTALL,
)
"""What a refusal says: the field, the value and what is allowed."""


@dataclass(frozen=True)
class Attempt:
    """One random request, and when its client leaves it: after so many responses, with or without a word."""

    text: str | bytes
    parameters: dict[str, ParameterValue]
    tensors: Tensors
    cut_bytes: int
    leaves_after: int | None
    is_polite: bool

    def request(self, request_id: str) -> service_pb2.ModelInferRequest:
        request = speech_request(self.text, self.tensors, request_id=request_id, parameters=self.parameters)
        if self.cut_bytes:
            request.raw_input_contents[0] = request.raw_input_contents[0][: -self.cut_bytes]
        return request


def mostly(usual: st.SearchStrategy[Any], *others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Three times in four, or so, the usual."""
    return st.integers(0, 3).flatmap(lambda chance: usual if chance else st.one_of(*others))


anything = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(max_size=20)
)  # fmt: skip
parameter_values: dict[str, st.SearchStrategy[ParameterValue]] = {
    "temperature": mostly(st.floats(0.0, 2.0), anything),
    "top_p": mostly(st.floats(0.01, 1.0), anything),
    "top_k": mostly(st.integers(0, 100), anything),
    "seed": mostly(st.integers(0, 2**63 - 1), anything),
    "first_chunk_frames": mostly(st.integers(1, 250), anything),
    "chunk_frames": mostly(st.integers(1, 250), anything),
    "urgency": mostly(st.integers(1, 3), anything),
    "deadline_ms": mostly(st.integers(10_000, 3_600_000), anything),
    "drafter": mostly(st.just("none"), st.sampled_from(["heads", "mtp", "draft_lm"]), anything),
    "verifier": mostly(st.just("match"), st.sampled_from(["ratio", "topk"]), anything),
}
texts = mostly(
    st.sampled_from(SENTENCES),
    st.text(min_size=1, max_size=60),
    st.text("abcdefgh ijkl.,?!-0123456789$%&/:@", min_size=1, max_size=60),
    st.binary(max_size=30),
)
shapes = st.sampled_from([(1, 1), (1,), (1, 2), (2, 1), (0,), (1, 0)])
tensors = st.one_of(
    st.sampled_from(["slt", "rms", "", "nobody"]).map(lambda name: {"VOICE": strings(name)}),
    shapes.map(lambda shape: {"VOICE": np.full(shape, b"slt", np.object_)}),
    shapes.map(lambda shape: {"VOICE": np.zeros(shape, np.int32)}),
    shapes.map(lambda shape: {"REFERENCE_AUDIO": np.zeros(shape, np.float32)}),
    st.just({"REFERENCE_TEXT": strings("Quiet.")}),
    st.just({"SPEED": np.ones((1, 1), np.float32)}),
)


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    names = draw(st.lists(st.sampled_from(sorted(parameter_values)), max_size=3, unique=True))
    text = draw(texts)
    return Attempt(
        text=text,
        parameters={"max_seconds": SHORT, **{name: draw(parameter_values[name]) for name in names}},
        tensors=draw(mostly(st.just({}), tensors)),
        cut_bytes=draw(st.sampled_from([0] * 19 + [1])),
        leaves_after=draw(st.sampled_from([None] * 5 + [0, 1])),
        is_polite=draw(st.sampled_from([True, True, False])),
    )


def attempt(server: Served, client: Client, one: Attempt, request_id: str) -> str:
    """What became of the request: spoken whole, refused with a reason, or left; fails otherwise."""
    chunks: list[Tensors] = []
    with RawStream(server.grpc, one.request(request_id)) as stream:
        try:
            for response in stream if one.leaves_after != 0 else ():
                if response.outputs:
                    chunks.append(tensors_of(response))
                if len(chunks) == one.leaves_after:
                    break
            if one.leaves_after is None:
                _check_whole(chunks)
                return "spoken"
            if one.is_polite:
                _leave_politely(stream, client, request_id)
            return "left"
        except Refused as refused:
            if one.leaves_after is not None and "CANCELLED: " in str(refused):
                return "left"
            assert REASON.search(str(refused)) and not chunks, refused
            return "refused"


def _leave_politely(stream: RawStream, client: Client, request_id: str) -> None:
    """Cancels, again if that overtook the request, and hears the stream out."""
    client.cancel(request_id=request_id)
    for _ in stream:
        pass


def _check_whole(chunks: list[Tensors]) -> None:
    assert [int(chunk["CHUNK_INDEX"][0]) for chunk in chunks] == list(range(len(chunks)))
    assert [bool(chunk["IS_LAST"][0]) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    audio = np.concatenate([chunk["AUDIO"] for chunk in chunks])
    frames = int(chunks[-1]["STATS"][2])
    assert len(audio) == HOP * frames
    assert 1 <= frames <= SHORT * 50
    assert np.isfinite(audio).all()


def test_five_hundred_random_requests_leave_the_server_as_it_was(server: Served, client: Client) -> None:
    before = speak(client, **REFERENCE)
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=ROUNDS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(attempts(), min_size=AT_ONCE, max_size=AT_ONCE))
    def throw(batch: list[Attempt]) -> None:
        ids = [f"fuzz {outcomes.total() + place}" for place in range(len(batch))]
        outcomes.update(pool.map(lambda one, id: attempt(server, client, one, id), batch, ids))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        throw()
    print(f"random requests: {dict(outcomes)}")
    assert outcomes.total() >= 500
    assert min(outcomes[outcome] for outcome in ("spoken", "refused", "left")) >= 50
    eventually(lambda: busy(client), lambda counts: not any(counts.values()))
    assert (speak(client, **REFERENCE).audio == before.audio).all()
    assert "restarting" not in server.log
    occupy_every_slot(client)


def busy(client: Client) -> dict[str, int]:
    details = client.load().details
    return {name: details[name] for name in ("active", "queued", "open_streams", "windows_in_flight")}


def occupy_every_slot(client: Client) -> None:
    """As many streams as there are slots speak at once: no slot is lost."""
    slots = int(client.load().details["slots"])
    streams = [client.speak(" ".join(SENTENCES), seed=seed) for seed in range(slots)]
    eventually(lambda: busy(client), lambda counts: (counts["active"], counts["queued"]) == (slots, 0))
    for stream in streams:
        stream.close()
    eventually(lambda: busy(client), lambda counts: not any(counts.values()))
