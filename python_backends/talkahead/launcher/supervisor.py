"""Keeps a server running: starts it, says when it is ready, restarts it when it is sick, drains it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from talkahead.launcher.gateway_process import GatewayProcess, gateway_of
from talkahead.launcher.health_check import CONTROL_MODEL, SPEECH_MODEL, HealthCheck
from talkahead.launcher.log_line import LogFormat, LogLevel, LogLine
from talkahead.launcher.path_watch import PathWatch
from talkahead.launcher.process_watch import ModelProcess
from talkahead.launcher.server_events import (
    GatewayEnded,
    GatewayReady,
    ModelEnded,
    ServerEvent,
    ServerEvents,
    Spoken,
    StopSignals,
)
from talkahead.launcher.server_log import ServerLog
from talkahead.launcher.server_process import ServeOptions, ServerProcess

_READY_POLL_S = 0.1
_DRAIN_POLL_S = 0.2
_RELOAD_GRACE_S = 0.5
_EXIT_MARGIN_S = 5.0
_CRASH_GRACE_S = 1.0
_TRIAL_STATUS = 1
_EXPLANATION_GRACE_S = 1.0
_STEADY_S = 600.0
"""A server that ran this long gets all its restarts back."""


class Outcome(Enum):
    """How one run of the server ended."""

    STOPPED = auto()
    NOT_STARTED = auto()
    BROKE = auto()


@dataclass(frozen=True)
class Ending:
    """An outcome and its reason, a sentence for the user."""

    outcome: Outcome
    reason: str = ""


class Supervisor:
    """`run` serves until it is told to stop; what the user should see goes to `show` and `announce`."""

    def __init__(
        self, options: ServeOptions, show: Callable[[LogLine], None], announce: Callable[[str], None]
    ) -> None:
        self._options = options
        self._show = show
        self._announce = announce
        self._signals = StopSignals()

    def run(self) -> int:
        """The exit status of the command.

        A server that never served is not tried again; one that did is, also when it does not come back at
        once: its port may be another's for a moment, its machine short of memory.
        """
        with self._signals.caught():
            restarts_left, has_served = self._options.restarts, False
            while True:
                began = time.monotonic()
                ending = self._run_once()
                if ending.outcome is Outcome.STOPPED:
                    return 0
                self._show(LogLine(ending.reason, LogLevel.ERROR))
                if time.monotonic() - began > _STEADY_S:
                    restarts_left = self._options.restarts
                has_served = has_served or ending.outcome is Outcome.BROKE
                if not has_served or restarts_left == 0:
                    self._say("giving up")
                    return 1
                restarts_left -= 1
                self._say(f"restarting the server on the same ports ({restarts_left} restarts left)")

    def _say(self, text: str) -> None:
        self._show(LogLine(text))

    def _run_once(self) -> Ending:
        server = ServerProcess(self._options)
        log = ServerLog(self._show, self._options.log_level)
        check = HealthCheck(self._options.addresses)
        events = ServerEvents(server, log, self._signals, check)
        run = _Run(self._options, server, log, events, self._signals, check, self._say, self._announce)
        try:
            ending = run.start()
            if ending is None:
                self._announce(f"ready {self._options.addresses}")
                with gateway_of(self._options) as gateway:
                    ending = run.keep(gateway)
            return ending
        finally:
            events.close()
            check.close()
            server.clean_up()


@dataclass(frozen=True)
class _Run:
    """One server, from its start to its end."""

    options: ServeOptions
    server: ServerProcess
    log: ServerLog
    events: ServerEvents
    signals: StopSignals
    check: HealthCheck
    show: Callable[[str], None]
    announce: Callable[[str], None]

    def start(self) -> Ending | None:
        """Waits until every model is ready; an ending if that will not happen."""
        began = time.monotonic()
        expected = self.options.models
        known = 0
        while not (self.log.loaded.issuperset(expected) and self.options.addresses.is_ready()):
            if self.signals.count:
                return self._stop()
            if self._is_over() or self.log.crash:
                self.events.wait(0)
                return Ending(Outcome.NOT_STARTED, self.log.crash or self.log.reason)
            if time.monotonic() - began > self.options.start_timeout_s:
                waiting = ", ".join(sorted(set(expected) - self.log.loaded)) or "the server"
                return Ending(
                    Outcome.NOT_STARTED, f"{waiting} not ready after {self.options.start_timeout_s:g} s"
                )
            self.events.watch_models(also_ended=True)
            for event in self.events.wait(_READY_POLL_S):
                if isinstance(event, ModelEnded) and not self._is_explained(event):
                    return Ending(Outcome.NOT_STARTED, f"{event.death} during the start{self.log.last_words}")
            if len(self.log.loaded) > known:
                known = len(self.log.loaded)
                names = " ".join(sorted(self.log.loaded))
                self.show(f"loading: {known} of {len(expected)} models ready after "
                          f"{time.monotonic() - began:.1f} s ({names})")  # fmt: skip
        self.events.watch_models()
        return self._say_something()

    def _is_explained(self, ended: ModelEnded) -> bool:
        """The log says why a process ended: then the server ends by itself, with the reasons of all models.

        Or it was none of a model: the server tries the backend's program out, which says no, and asks for its
        status at once.
        """
        process = ended.process
        may_be_trial = not process.model and ended.status in (None, _TRIAL_STATUS)

        def is_explained() -> bool:
            return self.log.explains_end(process.model) or (may_be_trial and process.is_waited_for)

        self._wait_until(lambda: is_explained() or self._is_over(), _EXPLANATION_GRACE_S)
        return is_explained()

    def _is_over(self) -> bool:
        return self.server.ended() is not None

    def _wait_until(self, holds: Callable[[], bool], limit_s: float) -> list[ServerEvent]:
        """Follows the log until something holds or it took too long; what else happened."""
        deadline, happened = time.monotonic() + limit_s, list[ServerEvent]()
        while not holds() and (left_s := deadline - time.monotonic()) > 0:
            happened += self.events.wait(left_s)
        return happened

    def _say_something(self) -> Ending | None:
        """Speaks once, so that no client pays for first uses, and that ready means that it speaks."""
        if SPEECH_MODEL not in self.options.models:
            return None
        self.check.start()
        while True:
            for event in self.events.wait(None):
                match event:
                    case Spoken(failure):
                        return self._first_said(failure)
                    case ModelEnded():
                        return Ending(Outcome.BROKE, event.death)
            if self.signals.count:
                return self._stop()
            if self._is_over():
                return Ending(Outcome.NOT_STARTED, self.log.reason)

    def _first_said(self, failure: str) -> Ending | None:
        if not failure:
            return None
        self.events.wait(0)
        return Ending(Outcome.NOT_STARTED, f"every model is ready, but the server does not speak: {failure}")

    def keep(self, gateway: GatewayProcess | None) -> Ending:
        """Returns when the server ended or is sick, or a stop was asked for and done; with a gateway, also
        when that does not run."""
        if gateway is not None:
            self.events.watch_gateway(gateway)
        known = set(self.log.loaded)
        watch = PathWatch(self.check.start, self.options.check_interval_s)
        while True:
            happened = self.events.wait(self._look(watch))
            if self.signals.count:
                return self._drain(gateway)
            if self.log.crash:
                return Ending(Outcome.BROKE, self._await_crash(happened))
            if (status := self.server.ended()) is not None:
                return Ending(
                    Outcome.BROKE, _after_deaths(f"the server ended by itself with status {status}", happened)
                )
            for reason in filter(None, (self._sickness(event, watch) for event in happened)):
                return Ending(Outcome.BROKE, reason)
            if gateway is not None and (ending := self._look_after(gateway, happened)) is not None:
                return ending
            if self.log.loaded != known:
                known = set(self.log.loaded)
                self.events.watch_models()

    def _look(self, watch: PathWatch) -> float | None:
        return watch.look(self.log.num_errors) if SPEECH_MODEL in self.options.models else None

    def _sickness(self, event: ServerEvent, watch: PathWatch) -> str | None:
        """What is wrong with the server, if an event says so."""
        match event:
            case Spoken(failure) if watch.is_sick(failure):
                return f"the server does not speak any more: {failure}"
            case ModelEnded(process) if self._is_death(process):
                return event.death
            case _:
                return None

    def _is_death(self, process: ModelProcess) -> bool:
        """Not the end of a process whose model was unloaded or loaded anew by the model control API."""
        time.sleep(_RELOAD_GRACE_S)
        self.events.watch_models()
        if process.model in self.events.models:
            return False
        control = self.options.model_control
        headers = control.http_headers if control else {}
        return not self.options.addresses.is_unloaded(process.model, headers)

    def _look_after(self, gateway: GatewayProcess, happened: Iterable[ServerEvent]) -> Ending | None:
        """Starts it again where it ended; an ending if that is of no use."""
        for event in happened:
            match event:
                case GatewayReady(line):
                    self.announce(line)
                    self.show(f"to hear it: http://{line.split()[2]}/")
                case GatewayEnded(status) if not gateway.was_ready:
                    return Ending(
                        Outcome.NOT_STARTED, f"the gateway ended with status {status} before it was ready"
                    )
                case GatewayEnded(status):
                    reason = f"the gateway ended by itself with status {status}"
                    if not gateway.revive():
                        return Ending(Outcome.BROKE, reason)
                    self.show(f"error: {reason}; starting it again")
                    self.events.watch_gateway(gateway)
        return None

    def _await_crash(self, happened: Iterable[ServerEvent]) -> str:
        """The server ends once it has written its stack, unless it hangs over that; a model whose death it
        did not survive may be gone later still."""
        later = self._wait_until(lambda: self._is_over() and not self.events.is_a_model_dying, _CRASH_GRACE_S)
        happened = [*happened, *later, *self.events.wait(0)]
        return _after_deaths(f"the server crashed: {self.log.crash}", happened)

    def _drain(self, gateway: GatewayProcess | None) -> Ending:
        """Lets open streams finish, but no longer than the drain timeout or a second signal.

        First it waits until proxies have noticed, by their health checks, that no more streams are wanted.
        The streams of a gateway come before others: it asks for more while it finishes what is being written.
        A syllable as well: Triton counts a request that it is stopped over until its exit timeout. Where
        nobody says how many there are, there may be some.
        """
        self.server.refuse_health_checks()
        if (delay_s := self.options.drain_delay_s) > 0:
            self.show(f"health checks are refused, streams are taken for {delay_s:g} s more")
            self._wait_until(lambda: self.signals.count > 1 or self._is_over(), delay_s)
        if gateway is not None:
            self._drain_gateway(gateway)
        self.server.refuse_new_streams()
        deadline = time.monotonic() + self.options.drain_timeout_s
        shown: int | None = 0
        while time.monotonic() < deadline and self.signals.count < 2:
            streams = self.options.addresses.open_streams(CONTROL_MODEL)
            if streams == 0 and not self.check.is_open:
                break
            if streams not in (0, shown):
                number = "an unknown number of" if streams is None else streams
                self.show(f"draining: {number} open streams (again to stop now)")
                shown = streams
            self.events.wait(_DRAIN_POLL_S)
            if self._is_over():
                break
        return self._stop()

    def _drain_gateway(self, gateway: GatewayProcess) -> None:
        """Passes signals on; it has a drain timeout of its own, and a third signal is for one that hangs."""
        self.show("stopping the gateway")
        num_passed = 0
        while gateway.ended() is None and not self._is_over() and self.signals.count < 3:
            if num_passed < self.signals.count:
                gateway.ask_to_stop()
                num_passed += 1
            self.events.wait(_DRAIN_POLL_S)

    def _stop(self) -> Ending:
        self.show("stopping the server")
        self.server.ask_to_stop()
        deadline = time.monotonic() + self.options.exit_timeout_s + _EXIT_MARGIN_S
        while not self._is_over() and time.monotonic() < deadline:
            self.events.wait(_DRAIN_POLL_S)
        clean = self.server.ended() == 0
        self.show(
            "stopped" if clean else "stopped; Triton still counted requests in flight at its exit timeout"
        )
        return Ending(Outcome.STOPPED)


def _after_deaths(reason: str, happened: Iterable[ServerEvent]) -> str:
    """Triton aborts when a model's process dies while it holds one of their shared locks."""
    deaths = [event.death for event in happened if isinstance(event, ModelEnded)]
    return "; ".join([*deaths, reason])


def show(line: LogLine, form: LogFormat = LogFormat.TEXT) -> None:
    """Progress and the log."""
    print(form.write(line), file=sys.stderr, flush=True)


def announce(line: str) -> None:
    """The ready line, for programs."""
    print(line, flush=True)
