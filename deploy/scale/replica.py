"""One replica: a talker that steps all its streams at once, and a codec that decodes their windows."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import simpy

from deploy.scale.costs import Costs
from deploy.scale.cpu import Cpu

SLOTS = 16
"""Of the talkers that were measured, which let nobody in beyond the rows of a step."""
_LOOKAHEAD_FRAMES = 3
_WINDOWS_FRAMES = (4, 8, 16)
_WINDOW_FRAMES = 20
_WINDOWS_IN_FLIGHT = 3
"""Of a stream, as the talker cuts them by itself."""
_CHECK_S, _SYLLABLE_S = 1.0, 0.1
"""Of the proxy's health checks: how often, and what is spoken."""


Life = Generator[simpy.Event, object, None]
"""What something does, from event to event."""


@dataclass(eq=False)
class Stream:
    """One utterance on its way."""

    frames: int
    asked_s: float
    done: simpy.Event
    made: float = 0.0
    sent: int = 0
    windows: int = 0
    in_flight: int = 0
    first_chunk_s: float | None = None
    has_run_dry: bool = False
    played_until_s: float = 0.0
    heard: int = 0

    def cut(self) -> int:
        """Frames of the next window, or 0: not enough were made for it."""
        if self.in_flight >= _WINDOWS_IN_FLIGHT or self.sent >= self.frames:
            return 0
        wanted = _WINDOWS_FRAMES[self.windows] if self.windows < len(_WINDOWS_FRAMES) else _WINDOW_FRAMES
        left = self.frames - self.sent
        if self.made >= self.frames:
            return min(wanted, left)
        return wanted if self.made - self.sent >= wanted + _LOOKAHEAD_FRAMES and wanted < left else 0

    def hear(self, frames: int, now_s: float, frames_per_s: float) -> None:
        """A window is audio."""
        self.heard += frames
        if self.first_chunk_s is None:
            self.first_chunk_s = now_s - self.asked_s
            self.played_until_s = now_s
        self.has_run_dry = self.has_run_dry or now_s > self.played_until_s
        self.played_until_s = max(self.played_until_s, now_s) + frames / frames_per_s


@dataclass
class Replica:
    """Takes streams from its start on, and a health check every second.

    Args:
        cpu: of its machine, where others may run too.
    """

    env: simpy.Environment
    costs: Costs
    cpu: Cpu
    open_streams: int = 0
    newcomers: list[Stream] = field(default_factory=list)
    speaking: list[Stream] = field(default_factory=list)
    windows: list[tuple[Stream, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._work, self._sound = self.env.event(), self.env.event()
        for life in (self._talk(), self._decode(), self._be_checked()):
            self.env.process(life)

    @property
    def queued(self) -> int:
        return len(self.newcomers)

    def speak(self, frames: int) -> Stream:
        stream = Stream(frames, self.env.now, self.env.event())
        self.open_streams += 1
        self.env.process(self._arrive(stream))
        return stream

    def _arrive(self, stream: Stream) -> Life:
        yield self.env.timeout(self.costs.idle_s)
        yield self.cpu.work(self.costs.request_s)
        self.newcomers.append(stream)
        _wake(self._work)

    def _talk(self) -> Life:
        while True:
            if room := self.newcomers[: SLOTS - len(self.speaking)]:
                del self.newcomers[: len(room)]
                self.speaking += room
                yield self.cpu.work(self.costs.prefill_s * len(room))
            ready = [
                one for one in self.speaking if one.in_flight < _WINDOWS_IN_FLIGHT and one.made < one.frames
            ]
            # Newcomers first, then who has least left to play.
            ready = sorted(ready, key=lambda one: one.played_until_s)
            ready = ready[: self.costs.width(len(self.speaking))]
            if ready:
                yield self.cpu.work(self.costs.step_s + len(ready) * self.costs.row_s)
                added = self.costs.tokens_a_step(len(ready))
                for stream in ready:
                    stream.made = min(stream.made + added, stream.frames)
            ended = sum(one.made >= one.frames for one in ready)
            if ended:
                yield self.cpu.work(ended * self.costs.ending_s)
            if not self._send() and not ready:
                self._work = self.env.event()
                yield self._work

    def _send(self) -> bool:
        """Hands windows to the codec; whether there were any."""
        before = len(self.windows)
        for stream in self.speaking:
            while frames := stream.cut():
                stream.sent += frames
                stream.windows += 1
                stream.in_flight += 1
                self.windows.append((stream, frames))
        self.speaking = [stream for stream in self.speaking if stream.sent < stream.frames]
        if len(self.windows) == before:
            return False
        _wake(self._sound)
        return True

    def _decode(self) -> Life:
        while True:
            if not self.windows:
                self._sound = self.env.event()
                yield self._sound
            batch, self.windows = self.windows, []
            yield self.cpu.work(self.costs.pass_s + len(batch) * self.costs.window_s)
            for stream, frames in batch:
                stream.in_flight -= 1
                self.env.process(self._bring(stream, frames))
            _wake(self._work)

    def _bring(self, stream: Stream, frames: int) -> Life:
        """A chunk to its listener."""
        yield self.cpu.work(self.costs.chunk_s)
        stream.hear(frames, self.env.now, self.costs.frames_per_s)
        if stream.heard >= stream.frames:
            self.open_streams -= 1
            stream.done.succeed()

    def _be_checked(self) -> Life:
        while True:
            yield self.env.timeout(_CHECK_S)
            self.speak(round(_SYLLABLE_S * self.costs.frames_per_s))


def _wake(sleeper: simpy.Event) -> None:
    if not sleeper.triggered:
        sleeper.succeed()
