from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_backend import FakeBackend, Request, TritonError
from replayed import Replayed
from talkahead.backbone import decoder_choice
from talkahead.backbone.reach_choice import reach_of
from talkahead.backbone.thread_choice import ThreadChoice
from talkahead.config import ModelConfig, SamplingDefaults
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_files import ACCEPTANCE, WEIGHTS, draft_folder
from talkahead.drafting.drafters import drafter_names
from talkahead.errors import ArtifactMismatch, BadRequest, TalkaheadError
from talkahead.families.code_tokens import CodeTokens
from talkahead.families.contracts import NO_WORDS
from talkahead.generation_config import AlignmentHead, write_sampling
from talkahead.manifest import sha256
from talkahead.serving import cost_store
from talkahead.serving.forecasting import forecast_of
from talkahead.serving.talker_parts import TalkerParts
from talkahead.serving.talker_server import TalkerServer
from talkahead.speculation.verifiers import VERIFIERS
from talkahead.speech_format import SpeechFormat
from talkahead.transport.messages import WindowDone
from talkahead.transport.senders import AcknowledgementSender
from talkahead.types import SegmentHeader, Stats, StopReason, WindowHeader
from tiny_voice import describe


@pytest.fixture
def talker_server(backend: FakeBackend, config_of: Callable[..., ModelConfig]) -> Iterator[TalkerServer]:
    server = TalkerServer(backend, config_of("talker", slots="4"))
    yield server
    server.close()


def test_a_head_that_the_talker_lacks_is_refused(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], repository: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(repository, tmp_path / "repository"))
    talker = folder / "talker" / "1"
    write_sampling(SamplingDefaults(), talker, AlignmentHead(layer=1, head=0))
    (talker / "manifest.json").unlink()
    describe(talker)
    with pytest.raises(
        ArtifactMismatch, match="head 0 of layer 1 in alignment_heads; the talker has 2 heads"
    ):
        TalkerServer(backend, config_of("talker", folder))


class Listener:
    """Acknowledges windows as the vocoder does, and waits for the end of a request."""

    def __init__(self, request: Request, is_ok: bool = True) -> None:
        self._request, self._is_ok = request, is_ok
        self._sender = AcknowledgementSender()
        self._ended = threading.Event()
        self._send = request.sender.send
        request.sender.send = self.send

    def send(self, response: object = None, flags: int = 0) -> None:
        self._send(response, flags)
        if response is not None and response.error is None:
            header = WindowHeader.from_array(response.tensors["WINDOW"])
            self._sender.send(
                header.address, WindowDone(header.stream, header.generation, header.chunk, self._is_ok)
            )
        if flags:
            self._ended.set()

    def wait(self) -> Request:
        assert self._ended.wait(20)
        self.close()
        return self._request

    def close(self) -> None:
        self._sender.close()


def segment(
    stream: int = 9, index: int = 0, last: int = 1, prompt: np.ndarray | None = None, **options: object
) -> Request:
    if prompt is None:
        prompt = np.random.default_rng(stream).standard_normal((6, 32)).astype(np.float32)
    header = SegmentHeader(stream, index, last, 0, 10, seed=5)
    tensors = {
        "PROMPT": prompt,
        "HISTORY": np.zeros(0, np.int32),
        "SEGMENT": header.to_array(),
        "WORDS": NO_WORDS,
    }
    return Request(tensors, json.dumps(options), id="mine")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def speak(server: TalkerServer, request: Request, is_ok: bool = True) -> Request:
    listener = Listener(request, is_ok)
    server.execute([request])
    return listener.wait()


def test_a_segment_becomes_windows_and_ends_once(talker_server: TalkerServer, backend: FakeBackend) -> None:
    request = speak(talker_server, segment(max_seconds=0.5))
    assert request.sender.error is None and request.sender.is_final
    headers = [WindowHeader.from_array(response.tensors["WINDOW"]) for response in request.sender.responses]
    assert [header.chunk for header in headers] == list(range(len(headers)))
    assert [header.last for header in headers] == [0] * (len(headers) - 1) + [1]
    assert headers[-1].reason in (StopReason.MAX_SECONDS, StopReason.END_OF_SPEECH) and headers[-1].new > 0
    for header, response in zip(headers, request.sender.responses, strict=True):
        assert response.tensors["FRAMES"].shape == (1, header.context + header.new + header.lookahead, 1)
        assert Stats.from_array(response.tensors["STATS"]).seed == 5
    wait_until(lambda: backend.metrics["talkahead_open_streams"][-1:] == [0])
    wait_until(lambda: sum(backend.metrics["talkahead_streams_ended_total"]) == 1)


def test_the_same_seed_gives_the_same_frames(talker_server: TalkerServer) -> None:
    def frames(stream: int) -> list[list[int]]:
        prompt = np.ones((4, 32), np.float32)
        request = speak(talker_server, segment(stream, prompt=prompt, max_seconds=0.4))
        return [response.tensors["FRAMES"].reshape(-1).tolist() for response in request.sender.responses]

    assert frames(1) == frames(2)


def test_where_a_device_records_usual_steps_are_one_graph_and_say_the_same(
    drafting_repository: Path, config_of: Callable[..., ModelConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What few ask for has its forward as a graph."""

    def said(server: TalkerServer, **options: object) -> list[list[int]]:
        request = speak(server, segment(prompt=np.ones((4, 32), np.float32), max_seconds=0.3, **options))
        return [response.tensors["FRAMES"].reshape(-1).tolist() for response in request.sender.responses]

    def server_of(backend: FakeBackend) -> TalkerServer:
        given = {"slots": "2", "decoder": "torch", "drafter": "heads", "verifier": "match"}
        return TalkerServer(backend, config_of("talker", drafting_repository, **given))

    launched = server_of(FakeBackend())
    expected = said(launched)
    launched.close()
    monkeypatch.setattr(decoder_choice, "has_graphs", lambda device: True)
    monkeypatch.setattr(decoder_choice, "CudaGraphs", lambda device: Replayed())
    backend = FakeBackend()
    recorded = server_of(backend)
    assert said(recorded) == expected
    assert said(recorded, drafter="none") == expected
    assert said(recorded, verifier="tolerance", tolerance=2)
    recorded.close()
    told = backend.metrics.by_labels("talkahead_forwards_total")
    ways = {way: sum(counts[-1:]) for way, counts in told.items()}
    assert ways["step"] > 20 and ways["forward"] > 5 and not ways["eager"]


@pytest.mark.parametrize(
    ("prompt", "options", "code"),
    [
        (np.full((1, 32), np.nan, np.float32), {}, TritonError.INTERNAL),
        (np.zeros((3, 31), np.float32), {}, TritonError.INVALID_ARG),
        (np.zeros((3, 32), np.float32), {"temperature": 9}, TritonError.INVALID_ARG),
    ],
)
def test_what_cannot_be_spoken_ends_with_an_error(
    talker_server: TalkerServer, prompt: np.ndarray, options: dict[str, object], code: int
) -> None:
    error = speak(talker_server, segment(prompt=prompt, **options)).sender.error
    assert error is not None and error.code == code


DRAFTED: list[dict[str, object]] = [
    {"drafter": "heads"},
    {"drafter": "mtp", "pin_draft": True},
    {"drafter": "draft_lm", "draft_length": 2},
    {"verifier": "tolerance", "nodes": 4},
    {"verifier": "groups", "similarity": 0.3, "pin_draft": True},
]


def test_drafts_are_served_by_request(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], drafting_repository: Path
) -> None:
    server = TalkerServer(backend, config_of("talker", drafting_repository, slots="4"))
    prompt = np.ones((4, 32), np.float32)
    plain, *drafted = (
        [Listener(segment(stream, prompt=prompt, max_seconds=0.6, **options))]
        for stream, options in enumerate([{}, *DRAFTED])
    )
    for (listener,) in (plain, *drafted):
        server.execute([listener._request])
    frames = [spoken(listener.wait()) for (listener,) in (plain, *drafted)]
    assert frames[1:4] == [frames[0]] * 3
    stats = [Stats.from_array(one[0]._request.sender.responses[-1].tensors["STATS"]) for one in drafted]
    assert all(one.accepted <= one.drafted for one in stats) and stats[1].drafted > 0
    given = [(drafter_names()[one.drafter], list(VERIFIERS)[one.verifier]) for one in stats]
    assert {pair[0] for pair in given} == {"heads", "mtp", "draft_lm"}
    assert {pair[1] for pair in given} == {"match", "tolerance", "groups"}
    assert all(one.decode_us > 0 for one in stats)
    server.close()
    steps = backend.metrics.by_labels("talkahead_committed_tokens_total")
    pairs = {"none,match", "heads,match", "mtp,match", "draft_lm,match", "heads,tolerance", "draft_lm,groups"}
    assert set(steps) == pairs and all(one[-1] > 0 for one in steps.values())


def spoken(request: Request) -> list[int]:
    codes = []
    for response in request.sender.responses:
        header = WindowHeader.from_array(response.tensors["WINDOW"])
        codes += response.tensors["FRAMES"][0, header.context : header.context + header.new, 0].tolist()
    return codes


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_window_that_cannot_be_sent_ends_its_stream_and_spares_its_neighbours(
    talker_server: TalkerServer, backend: FakeBackend, fails_at: int
) -> None:
    broken, other = segment(1, max_seconds=1), segment(2, max_seconds=1)
    broken.sender.fails_at = frozenset([fails_at])
    listeners = [Listener(request) for request in (broken, other)]
    talker_server.execute([broken, other])
    for listener in listeners:
        listener.wait()
    error = broken.sender.error
    assert error is not None and error.code == TritonError.INTERNAL
    assert f"chunk {fails_at} could not be sent: MemoryError: no shared memory" in str(error)
    assert len(broken.sender.responses) == fails_at + 1 and broken.sender.is_final
    assert spoken(other) and other.sender.error is None
    assert any("chunk" in line and "request 'mine'" in line for line in backend.Logger.errors)


def test_an_end_that_cannot_be_sent_is_in_the_log(talker_server: TalkerServer, backend: FakeBackend) -> None:
    calls = speak(talker_server, segment(max_seconds=0.1)).sender.calls
    request = segment(max_seconds=0.1)
    request.sender.fails_at = frozenset([calls - 1])
    listener = Listener(request)
    talker_server.execute([request])
    assert request.sender.ended.wait(20)
    wait_until(lambda: len(backend.Logger.errors) == 1)
    listener.close()
    assert "the end of a segment of 'mine': MemoryError: no shared memory" in backend.Logger.errors


def test_a_request_that_cannot_be_read_is_refused(talker_server: TalkerServer) -> None:
    request = Request({"SEGMENT": SegmentHeader(9, 0, 1, 0, 10, seed=5).to_array()})
    assert "PROMPT" in str(speak(talker_server, request).sender.error)


def test_a_server_without_drafts_refuses_them(talker_server: TalkerServer) -> None:
    error = speak(talker_server, segment(drafter="heads")).sender.error
    assert error is not None and "drafter: 'heads' is not accepted; allowed: none" in str(error)


def test_a_default_that_has_no_weights_is_refused(
    backend: FakeBackend, config_of: Callable[..., ModelConfig]
) -> None:
    with pytest.raises(BadRequest, match=r"parameter drafter: 'mtp' .* allowed: auto, none"):
        TalkerServer(backend, config_of("talker", drafter="mtp"))


def test_drafts_of_another_talker_are_refused(
    backend: FakeBackend,
    config_of: Callable[..., ModelConfig],
    drafting_repository: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "repository"
    shutil.copytree(drafting_repository, folder)
    path = folder / "talker" / "1" / "drafts" / "mtp" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target": "0" * 64}))
    with pytest.raises(ArtifactMismatch, match="rebuild it with: make tiny"):
        TalkerServer(backend, config_of("talker", folder))


def test_a_window_that_failed_ends_the_stream(talker_server: TalkerServer) -> None:
    error = speak(talker_server, segment(max_seconds=2), is_ok=False).sender.error
    assert error is not None and error.code == TritonError.INTERNAL and "vocoder failed" in str(error)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("decoder", "auto, torch, native"),
        ("precision", "float32, bfloat16, int8"),
        ("step_sizes", "buckets, one"),
    ],
)
def test_a_decoder_that_does_not_exist_is_refused(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], name: str, allowed: str
) -> None:
    with pytest.raises(BadRequest, match=f"parameter {name}.*{allowed}"):
        TalkerServer(backend, config_of("talker", **{name: "other"}))


def test_a_talker_and_a_vocoder_that_do_not_fit(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "vocoder" / "1").mkdir(parents=True)
    (tmp_path / "talker").symlink_to(repository / "talker")
    speech = SpeechFormat.read(repository / "vocoder" / "1")
    replace(speech, codebooks=(18,)).save(tmp_path / "vocoder" / "1")
    config = ModelConfig(tmp_path / "talker" / "1", {}, 1)
    with pytest.raises(ArtifactMismatch, match=r"knows 25 tokens, ends with 24; the format .* has 19 and 18"):
        TalkerServer(backend, config)


def test_auto_is_the_drafter_that_pays_most_here(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], drafting_repository: Path, counted: Path
) -> None:
    """Counted as if every draft of four nodes were accepted whole: something pays on any machine."""
    config = config_of("talker", drafting_repository, slots="2", drafter="auto")
    server = TalkerServer(backend, config)
    try:
        request = speak(server, segment(max_seconds=0.5))
    finally:
        server.close()
    stats = Stats.from_array(request.sender.responses[-1].tensors["STATS"])
    assert drafter_names()[stats.drafter] == "draft_lm"
    assert list(VERIFIERS)[stats.verifier] == "match"
    assert len(list(counted.glob("step-costs-*.json"))) <= 1


def test_a_talker_that_joins_a_busy_server_measures_nothing(
    backend: FakeBackend,
    config_of: Callable[..., ModelConfig],
    drafting_repository: Path,
    counted: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = {"slots": "2", "drafter": "auto", "measure_steps": "false"}
    server = TalkerServer(backend, config_of("talker", drafting_repository, **asked))
    try:
        request = speak(server, segment(max_seconds=0.5))
    finally:
        server.close()
    assert drafter_names()[Stats.from_array(request.sender.responses[-1].tensors["STATS"]).drafter] == "none"
    assert "was not measured here, so it drafts where it is asked to" in capsys.readouterr().err
    assert not list(counted.glob("step-costs-*.json"))


def test_auto_without_a_count_is_plain(
    backend: FakeBackend, config_of: Callable[..., ModelConfig], drafting_repository: Path
) -> None:
    server = TalkerServer(backend, config_of("talker", drafting_repository, slots="2", drafter="auto"))
    try:
        request = speak(server, segment(max_seconds=0.5))
    finally:
        server.close()
    assert drafter_names()[Stats.from_array(request.sender.responses[-1].tensors["STATS"]).drafter] == "none"


def loaded(config: ModelConfig) -> TalkerParts:
    speech = SpeechFormat.read(config.artifact_folder("vocoder"))
    tokens = CodeTokens(speech.codebooks)
    return TalkerParts.load(config, speech, tokens, torch.device("cpu"), ThreadChoice(1))


def test_the_next_server_takes_what_was_measured(
    config_of: Callable[..., ModelConfig],
    drafting_repository: Path,
    counted: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reaches too, which differ from one measurement to the next: they are no reason for another one."""
    config = config_of("talker", drafting_repository, slots="2", drafter="auto")
    assert forecast_of(loaded(config), config)
    assert "measuring what its steps cost" in capsys.readouterr().err
    [kept] = counted.glob("step-costs-*.json")
    found = json.loads(kept.read_text())
    found["reach"] = [64 * place for place, _ in enumerate(found["reach"])]
    kept.write_text(json.dumps(found))
    parts = loaded(config)
    assert forecast_of(parts, config)
    assert "measuring" not in capsys.readouterr().err
    assert reach_of(parts.backbone) == tuple(found["reach"])


def test_slots_are_as_many_as_the_memory_holds(
    config_of: Callable[..., ModelConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    few, more = (
        loaded(config_of("talker", slots="auto", memory_bytes=str(budget))).backbone.num_slots
        for budget in (1_000_000, 3_000_000)
    )
    assert 1 <= few < more < 256
    assert "talker: weights " in (told := capsys.readouterr().err) and f"{more} slots" in told
    asked = rf"memory_bytes is 1,000,000, and {few + 1} slots .* up to {few}"
    with pytest.raises(TalkaheadError, match=asked):
        loaded(config_of("talker", slots=str(few + 1), memory_bytes="1000000"))
    with pytest.raises(BadRequest, match="auto goes with memory_bytes"):
        loaded(config_of("talker", slots="auto"))


@pytest.fixture
def counted(drafting_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The draft model's acceptance beside it; measured costs go to a folder of the test's own."""
    folder = draft_folder(drafting_repository / "talker" / "1", "draft_lm")
    Acceptance(sha256(folder / WEIGHTS), 1, 0.7, 0.95, {2: 20.0, 3: 30.0, 4: 40.0}).save(folder)
    monkeypatch.setattr(cost_store, "cache_folders", lambda: iter([tmp_path]))
    yield tmp_path
    (folder / ACCEPTANCE).unlink()
