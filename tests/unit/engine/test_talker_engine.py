"""The engine's threads: nothing hangs, whatever raises and whoever closes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import pytest
from talkahead.config import RequestOptions
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_engine import TalkerEngine
from talkahead.errors import Code, TalkaheadError
from talkahead.transport.control_client import ControlClient
from talkahead.transport.messages import LoadReport, WindowDone
from talkahead.transport.receivers import AcknowledgementReceiver
from talkahead.transport.senders import AcknowledgementSender
from talkahead.types import Ending, SegmentHeader, StreamAccount
from talker_fakes import CONFIG, Outlet, ScriptedBackbone, script

PATIENCE_S = 30.0
"""A hang fails the test after this; nothing waits for it otherwise."""


@dataclass
class Line(Outlet):
    """An outlet that a test can wait for, and that hands windows to a vocoder."""

    vocoder: AcknowledgementSender | None = None
    done: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)

    def send(self, window: Window) -> None:
        super().send(window)
        self.started.set()
        if self.vocoder is not None:
            header = window.header
            self.vocoder.send(header.address, WindowDone(header.stream, header.generation, header.chunk))

    def _end(self, how: TalkaheadError | str) -> None:
        try:
            super()._end(how)
        finally:
            self.done.set()

    def wait(self) -> None:
        assert self.done.wait(PATIENCE_S), "the stream hangs"


@dataclass
class Server:
    """An engine with its receiver, over a scripted backbone."""

    folder: Path
    backbone: ScriptedBackbone = field(default_factory=lambda: ScriptedBackbone(8))
    ends: list[Ending] = field(default_factory=list)
    stages: set[str] = field(default_factory=set)
    steps: int = 0
    """Of segments that have left their slots."""
    audio_s: float = 0.0

    def __post_init__(self) -> None:
        self.receiver = AcknowledgementReceiver(self.folder)
        self.vocoder = AcknowledgementSender(self.folder)
        self.logged: list[str] = []
        self.engine = TalkerEngine(
            self.backbone,
            CONFIG,
            address=self.receiver.address,
            telemetry=self,
            log=self.logged.append,
        )
        self.receiver.start(self.engine)

    def stage(self, name: str, seconds: float) -> None:
        assert seconds >= 0
        self.stages.add(name)

    def stepped(self, count: int, seconds: float, streams: int, nodes: int) -> None:
        assert count == 1 and seconds >= 0 and streams > 0 and nodes == 1
        self.stages.add("step")

    def heard(self, seconds: float, first_chunk_s: float | None) -> None:
        assert seconds > 0 and (first_chunk_s is None or first_chunk_s >= 0)
        self.audio_s += seconds

    def pool(self, load: LoadReport) -> None:
        self.load = load

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        assert (drafter, verifier, drafted, accepted) == ("none", "match", 0, 0)
        assert sum(committed) == committed[1]
        self.steps += sum(committed)

    def ended(self, account: StreamAccount) -> None:
        self.ends.append(account.ending)

    def late(self, stream: str, seconds: float) -> None:
        """On a busy machine a stream may be."""

    def submit(
        self,
        stream: int,
        frames: int,
        *,
        answers: bool = True,
        breaks_at: int = -1,
        request_id: str = "",
        line: Line | None = None,
    ) -> Line:
        line = line or Line()
        line.breaks_at, line.vocoder = breaks_at, self.vocoder if answers else None
        prompt = np.zeros((3, 4), dtype=np.float32)
        prompt[0, :2] = stream, frames
        header = SegmentHeader(stream, 0, 1, 0, 9, 7)
        self.engine.submit(SegmentRequest(header, prompt, RequestOptions(temperature=0.0), request_id, line))
        return line

    def close(self) -> None:
        self.engine.close()
        self.receiver.close()
        self.vocoder.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.close()


def test_sixteen_threads_each_get_their_own(server: Server) -> None:
    lines: dict[int, Line] = {}
    threads = [
        threading.Thread(target=lambda stream=stream: lines.update({stream: server.submit(stream, 60)}))
        for stream in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream, line in lines.items():
        line.wait()
        assert line.tokens == script(stream, 60)
    server.engine.close()
    assert server.ends == [Ending.END_OF_SPEECH] * 16
    assert (server.load.active, server.load.queued, server.load.open_streams) == (0, 0, 0)
    assert server.audio_s == pytest.approx(16 * 60 / CONFIG.speech.frames_per_s)
    assert server.stages == {"queue", "prefill", "step", "first_window", "emit"}


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[threading.ExceptHookArgs]:
    """Threads that an exception has ended."""
    seen: SimpleQueue[threading.ExceptHookArgs] = SimpleQueue()
    monkeypatch.setattr("threading.excepthook", seen.put)
    return seen


def test_a_failing_backbone_ends_every_stream_and_then_the_loop_s_thread(
    server: Server, deaths: SimpleQueue[threading.ExceptHookArgs]
) -> None:
    speaking = [server.submit(stream, 90, answers=False) for stream in range(10)]
    for line in speaking[:8]:
        assert line.started.wait(PATIENCE_S)

    def fail() -> None:
        raise RuntimeError("out of memory")

    server.backbone.on_step = fail
    trigger = server.submit(11, 90)
    for line in (*speaking, trigger):
        if not line.windows or line is trigger:
            server.engine.cancel(line.windows[0].header.stream if line.windows else None, "nobody")
    for stream, line in enumerate(speaking[:8]):
        for window in line.windows:
            server.engine.acknowledge(WindowDone(stream, window.header.generation, window.header.chunk))
    for line in (*speaking, trigger):
        line.wait()
        assert line.error.code is Code.INTERNAL
        assert "out of memory" in str(line.error)
    death = deaths.get(timeout=PATIENCE_S)
    assert death.thread is not None and death.thread.name == "talker-loop"
    assert str(death.exc_value) == "out of memory" and deaths.empty()
    assert server.logged[-1] == "the talker's loop failed: RuntimeError: out of memory"
    late = server.submit(12, 5)
    late.wait()
    assert "out of memory" in str(late.error)
    assert server.engine.cancel(3, None) == 0


def test_a_loop_that_fails_dies_only_when_everybody_has_been_told(
    server: Server, deaths: SimpleQueue[threading.ExceptHookArgs]
) -> None:
    may_be_told = threading.Event()

    class Slow(Line):
        def fail(self, error: TalkaheadError) -> None:
            assert may_be_told.wait(PATIENCE_S)
            super().fail(error)

    slow = server.submit(1, 90, answers=False, line=Slow())
    assert slow.started.wait(PATIENCE_S)
    server.backbone.on_step = lambda: 1 / 0  # type: ignore[assignment, return-value]
    trigger = server.submit(2, 90)
    server.submit(3, 5)
    with pytest.raises(Empty):
        deaths.get(timeout=0.2)
    may_be_told.set()
    deaths.get(timeout=PATIENCE_S)
    assert [type(line.end) for line in (slow, trigger)] == [TalkaheadError] * 2


def test_an_engine_that_is_closed_dies_quietly(
    server: Server, deaths: SimpleQueue[threading.ExceptHookArgs]
) -> None:
    server.engine.close()
    assert deaths.empty() and server.logged == []


def test_closing_ends_every_stream_with_an_error(server: Server) -> None:
    lines = [server.submit(stream, 90, answers=False) for stream in range(12)]
    server.engine.close()
    for line in lines:
        line.wait()
        assert line.error.code is Code.UNAVAILABLE
    late = server.submit(30, 5)
    late.wait()
    assert late.error.code is Code.UNAVAILABLE


def test_a_raising_outlet_does_not_disturb_others(server: Server) -> None:
    broken = server.submit(1, 90, breaks_at=1)
    others = [server.submit(stream, 90) for stream in (2, 3)]
    for stream, line in zip((2, 3), others, strict=True):
        line.wait()
        assert line.tokens == script(stream, 90)
    broken.wait()
    assert "chunk 1 could not be sent: MemoryError: no shared memory" in str(broken.error)
    assert server.submit(4, 5).wait() is None


def test_an_end_that_cannot_be_told_is_in_the_log(server: Server) -> None:
    class Closed(Line):
        def _end(self, how: TalkaheadError | str) -> None:
            super()._end(how)
            raise BrokenPipeError("nobody there")

    for line in (server.submit(1, 5, line=Closed()), server.submit(2, 5, breaks_at=0, line=Closed())):
        line.wait()
    server.submit(3, 5).wait()
    assert server.logged.count("the end of a segment: BrokenPipeError: nobody there") == 2


def test_control_cancels_and_reports_over_the_socket(server: Server) -> None:
    line = server.submit(5, 90, answers=False, request_id="mine")
    assert line.started.wait(PATIENCE_S)
    control = ControlClient(server.folder)
    (report,) = control.load()
    assert (report.open_streams, report.slots) == (1, 8)
    assert control.cancel(request_id="mine") == 1
    for window in line.windows:
        header = window.header
        server.vocoder.send(header.address, WindowDone(header.stream, header.generation, header.chunk))
    line.wait()
    assert line.error.code is Code.CANCELLED
    assert control.cancel(stream=5) == 0


def test_an_idle_engine_sleeps(server: Server) -> None:
    server.submit(1, 5).wait()
    turns = 0
    inner = server.engine._loop.turn

    def counted() -> float:
        nonlocal turns
        turns += 1
        return inner()

    server.engine._loop.turn = counted  # type: ignore[method-assign]
    threading.Event().wait(0.3)
    assert turns <= 1
