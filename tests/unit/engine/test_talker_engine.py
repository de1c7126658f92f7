"""The engine's threads: nothing hangs, whatever raises and whoever closes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from talkahead.config import RequestOptions
from talkahead.engine.acknowledgements import (
    AcknowledgementReceiver,
    AcknowledgementSender,
    ControlClient,
    WindowDone,
)
from talkahead.engine.requests import SegmentRequest, Window
from talkahead.engine.talker_engine import TalkerEngine
from talkahead.errors import Code, TalkaheadError
from talkahead.types import SegmentHeader, StopReason
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
    ends: list[StopReason] = field(default_factory=list)
    stages: set[str] = field(default_factory=set)
    steps: int = 0
    """Of segments that have left their slots."""

    def __post_init__(self) -> None:
        self.receiver = AcknowledgementReceiver(self.folder)
        self.vocoder = AcknowledgementSender(self.folder)
        self.engine = TalkerEngine(self.backbone, CONFIG, address=self.receiver.address, telemetry=self)
        self.receiver.start(self.engine)

    def stage(self, name: str, seconds: float) -> None:
        assert seconds >= 0
        self.stages.add(name)

    def pool(self, active: int, queued: int, open_streams: int) -> None:
        self.gauges = (active, queued, open_streams)

    def spoken(
        self, drafter: str, verifier: str, drafted: int, accepted: int, committed: Sequence[int]
    ) -> None:
        assert (drafter, verifier, drafted, accepted) == ("none", "match", 0, 0)
        assert sum(committed) == committed[1]
        self.steps += sum(committed)

    def ended(self, reason: StopReason) -> None:
        self.ends.append(reason)

    def submit(
        self, stream: int, frames: int, *, answers: bool = True, breaks_at: int = -1, request_id: str = ""
    ) -> Line:
        line = Line(breaks_at=breaks_at, vocoder=self.vocoder if answers else None)
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
    assert server.ends == [StopReason.END_OF_SPEECH] * 16
    assert server.gauges == (0, 0, 0)
    assert server.stages == {"queue", "prefill", "step", "first_window", "emit"}


def test_a_failing_backbone_ends_every_stream_and_the_engine_says_so(server: Server) -> None:
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
    assert not server.engine.is_healthy
    assert not server.engine.load().healthy
    late = server.submit(12, 5)
    late.wait()
    assert "out of memory" in str(late.error)
    assert server.engine.cancel(3, None) == 0


def test_closing_ends_every_stream_with_an_error(server: Server) -> None:
    lines = [server.submit(stream, 90, answers=False) for stream in range(12)]
    server.engine.close()
    for line in lines:
        line.wait()
        assert line.error.code is Code.UNAVAILABLE
    late = server.submit(30, 5)
    late.wait()
    assert late.error.code is Code.UNAVAILABLE
    assert server.engine.is_healthy


def test_a_raising_outlet_does_not_disturb_others(server: Server) -> None:
    broken = server.submit(1, 90, breaks_at=1)
    others = [server.submit(stream, 90) for stream in (2, 3)]
    for stream, line in zip((2, 3), others, strict=True):
        line.wait()
        assert line.tokens == script(stream, 90)
    broken.wait()
    assert server.engine.is_healthy


def test_control_cancels_and_reports_over_the_socket(server: Server) -> None:
    line = server.submit(5, 90, answers=False, request_id="mine")
    assert line.started.wait(PATIENCE_S)
    control = ControlClient(server.folder)
    (report,) = control.load()
    assert (report.open_streams, report.slots, report.healthy) == (1, 8, True)
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
