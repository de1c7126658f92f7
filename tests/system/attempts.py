"""Random requests, good and bad, and what may become of each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from hearing import check_frame
from hypothesis import strategies as st
from raw import RawStream, Refused, Tensors, speech_request, strings, tensors_of
from served import REPOSITORY, Served
from shipped import SPEECH, VOICES
from talkahead.config import SPECULATION
from talkahead.drafting.drafters import DRAFTERS, drafter_names, verifiers_of
from talkahead.speculation.verifiers import VERIFIERS
from talkahead_client import Client, wire
from talkahead_client.protocol import SPEECH_INPUTS, ParameterValue
from texts import SENTENCES
from tritonclient.grpc import service_pb2

SHORT = 0.3
"""Longest speech of a request, in seconds."""

_REASON = re.compile(
    r"INVALID_ARGUMENT: (?P<field>\w[\w ]*): (?P<value>.+) is not accepted; allowed: .", re.DOTALL
)
"""What a refusal of ours says: the field, the value and what is allowed."""

_TRITONS_REASON = re.compile(
    r"\[request id: [^\]]*\] .*(input|batch-size).*'tts'|unexpected inference input '\w+' for model 'tts'"
    r"|incomplete string data for inference input '\w+', expecting string of length",
    re.DOTALL,
)
"""Triton's own words, for tensors that do not fit config.pbtxt."""

_PASSED = re.compile(r"deadline_ms: (\d+) ms have passed")
_INPUTS = {tensor.name for tensor in SPEECH_INPUTS}

_SHOWN = 60
"""Characters of a value that a refusal repeats at least."""


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


def _similarities() -> list[float]:
    """Thresholds of the shipped voice's groups."""
    described = json.loads((REPOSITORY / "talker" / "1" / "groups" / "groups.json").read_text())
    return [group["similarity"] for group in described["groups"]]


anything = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(max_size=20)
)  # fmt: skip
sampling: dict[str, st.SearchStrategy[ParameterValue]] = {
    "temperature": mostly(st.floats(0.0, 2.0), anything),
    "top_p": mostly(st.floats(0.01, 1.0), anything),
    "top_k": mostly(st.integers(0, 100), anything),
    "repetition_penalty": mostly(st.floats(1.0, 2.0), anything),
    "ras_win_len": mostly(st.integers(0, 100), anything),
    "ras_win_max_num_repeat": mostly(st.integers(1, 9), anything),
    "seed": mostly(st.integers(0, 2**63 - 1), anything),
    "first_chunk_frames": mostly(st.integers(1, 250), anything),
    "chunk_frames": mostly(st.integers(1, 250), anything),
    "urgency": mostly(st.integers(1, 3), anything),
    "deadline_ms": mostly(st.integers(10_000, 3_600_000), anything),
    "speed": st.floats(0.7, 1.4),
    "pitch": anything,
}
"""A parameter that nobody knows is among them."""

drafting: dict[str, st.SearchStrategy[ParameterValue]] = {
    "tolerance": st.integers(1, 16),
    "top_k_verify": st.integers(1, 65_536),
    "eos_top_k": st.integers(1, 65_536),
    "bias": st.floats(0.0, 1.0),
    "similarity": st.sampled_from(_similarities()),
    "draft_length": st.integers(1, 4),
    "nodes": st.integers(1, 130),
    "pin_draft": st.booleans(),
}
"""Values that some pair takes, or nearly."""
assert set(drafting) == set(SPECULATION)


@st.composite
def drafts(draw: st.DrawFn) -> dict[str, ParameterValue]:
    """A pair and some of its own options; now and then something that does not go with it."""
    drafter = draw(st.sampled_from(sorted(drafter_names())))
    verifier = draw(st.sampled_from(verifiers_of(drafter)))
    own = list(VERIFIERS[verifier].options)
    if drafter in DRAFTERS:
        own += DRAFTERS[drafter].options
    chosen: dict[str, ParameterValue] = {"drafter": drafter, "verifier": verifier}
    chosen |= {name: draw(drafting[name]) for name in own if draw(st.booleans())}
    match draw(st.sampled_from(["as it is"] * 5 + ["alone", "pair", "foreign", "value"])):
        case "alone":
            del chosen[draw(st.sampled_from(["drafter", "verifier"]))]
        case "pair":
            chosen["verifier"] = draw(st.sampled_from(sorted(VERIFIERS)))
        case "foreign":
            name = draw(st.sampled_from(SPECULATION))
            chosen[name] = draw(drafting[name])
        case "value":
            chosen[draw(st.sampled_from(["drafter", "verifier", *SPECULATION]))] = draw(anything)
    return chosen


texts = mostly(
    st.sampled_from(SENTENCES),
    st.text(min_size=1, max_size=60),
    st.text("abcdefgh ijkl.,?!-0123456789$%&/:@", min_size=1, max_size=60),
    st.binary(max_size=30),
)
shapes = st.sampled_from([(1, 1), (1,), (1, 2), (2, 1), (0,), (1, 0)])
tensors = st.one_of(
    st.sampled_from([*VOICES, "", "nobody"]).map(lambda name: {"VOICE": strings(name)}),
    shapes.map(lambda shape: {"VOICE": np.full(shape, VOICES[0].encode(), np.object_)}),
    shapes.map(lambda shape: {"VOICE": np.zeros(shape, np.int32)}),
    shapes.map(lambda shape: {"REFERENCE_AUDIO": np.zeros(shape, np.float32)}),
    st.just({"REFERENCE_TEXT": strings("Quiet.")}),
    st.just({"SPEED": np.ones((1, 1), np.float32)}),
)


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    names = draw(st.lists(st.sampled_from(sorted(sampling)), max_size=2, unique=True))
    text = draw(texts)
    return Attempt(
        text=text,
        parameters={
            "max_seconds": SHORT,
            **{name: draw(sampling[name]) for name in names},
            **draw(st.one_of(st.just({}), drafts())),
        },
        tensors=draw(mostly(st.just({}), tensors)),
        cut_bytes=draw(st.sampled_from([0] * 19 + [1])),
        leaves_after=draw(st.sampled_from([None] * 4 + [0, 1])),
        is_polite=draw(st.sampled_from([True, True, False])),
    )


def attempt(server: Served, client: Client, one: Attempt, request_id: str) -> str:
    """What became of the request: spoken whole, refused with a reason, or left; fails otherwise."""
    responses: list[service_pb2.ModelInferResponse] = []
    with RawStream(server.grpc, one.request(request_id)) as stream:
        try:
            for response in stream if one.leaves_after != 0 else ():
                responses.append(response)
                if len(_chunks(responses)) == one.leaves_after:
                    break
            if one.leaves_after is None:
                _check_whole(responses, float(one.parameters.get("speed", 1.0)))
                return "spoken"
            if one.is_polite:
                _leave_politely(stream, client, request_id)
            return "left"
        except Refused as refused:
            if one.leaves_after is not None and "CANCELLED: " in str(refused):
                return "left"
            assert not responses and list(stream) == [], refused
            _check_reason(str(refused), one)
            return "refused"


def _chunks(responses: list[service_pb2.ModelInferResponse]) -> list[Tensors]:
    return [tensors_of(response) for response in responses if response.outputs]


def _leave_politely(stream: RawStream, client: Client, request_id: str) -> None:
    """Cancels, again if that overtook the request, and hears the stream out."""
    client.cancel(request_id=request_id)
    for _ in stream:
        pass


def _check_whole(responses: list[service_pb2.ModelInferResponse], speed: float) -> None:
    """It ended once, with all the audio that it claims."""
    assert [wire.is_final(one) for one in responses] == [False] * (len(responses) - 1) + [True]
    chunks = _chunks(responses)
    assert [int(chunk["CHUNK_INDEX"][0]) for chunk in chunks] == list(range(len(chunks)))
    assert [bool(chunk["IS_LAST"][0]) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    audio = np.concatenate([chunk["AUDIO"] for chunk in chunks])
    frames = int(chunks[-1]["STATS"][2])
    check_frame(len(audio) / frames, SPEECH, speed)
    assert 1 <= frames <= SPEECH.frames(speed * SHORT)
    assert np.isfinite(audio).all()


def _check_reason(said: str, one: Attempt) -> None:
    """The refusal names a field that the request has, and its value."""
    if _TRITONS_REASON.search(said):
        return
    if passed := _PASSED.search(said):
        assert one.parameters["deadline_ms"] == int(passed[1]), said
        return
    reason = _REASON.search(said)
    assert reason is not None, said
    field, shown = reason["field"], reason["value"]
    if field == "request parameter":
        assert "pitch" in one.parameters and shown == "'pitch'", said
    elif field in one.parameters:
        assert shown.startswith(_likely(one.parameters[field])), said
    else:
        assert field.split()[0] in _INPUTS, said


def _likely(value: ParameterValue) -> tuple[str, ...]:
    """How a refusal may begin to show it: as it is, or as the whole number that it also is."""
    ways = [repr(value)[:_SHOWN]]
    if isinstance(value, float) and value.is_integer():
        ways.append(repr(int(value))[:_SHOWN])
    return tuple(ways)
