"""`python -m perf.replicas`: what listeners lose when one of two replicas behind a proxy is killed.

Streams speak one after another through haproxy. In the middle of it, with some that speak and some that have
just asked, Triton of the first replica is killed (SIGKILL). Its launcher starts it again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from talkahead_client import Client, SpeechError, StreamBroken

from instruments import report
from instruments.environment import REPOSITORY, Environment
from instruments.proxy import Proxy, proxy_before
from instruments.server import Server, server_at
from perf.arguments import at_least
from perf.memory import server_pid
from perf.texts import TEXTS

_SERVE = ("--check-interval", "0")
_BACK = "Server replicas/first is UP"
_OUTAGE = re.compile(r"^Server replicas/\w+ is DOWN, .*", re.MULTILINE)
_RETURN_LIMIT_S = 240.0
_STREAM_LIMIT_S = 60.0
_RETRIES = 100
_LOOK_S = 0.1


class Ending(StrEnum):
    """Of one stream."""

    WHOLE = "whole"
    CUT = "cut"
    """It had spoken, and was told that its server went away."""
    FAILED = "failed"
    """Anything else: nobody should."""


@dataclass(frozen=True)
class Heard:
    """One stream. Times in seconds of one clock; `spoke_s` is the first chunk's."""

    asked_s: float
    spoke_s: float | None
    ended_s: float
    ending: Ending
    error: str = ""


@dataclass(frozen=True)
class Loss:
    """What became of all streams.

    Args:
        open_there: streams that the killed replica had open, as it told the moment before.
        cut_within_s: from the kill to the last stream's being told.
        silent: streams that had asked and not been heard when it was killed; `silent_whole` of them were
            spoken all the same.
        returned_s: from the kill until the proxy sent it streams again.
        shares: streams of each replica after that.
        outages: the proxy's words where it took a replica for sick or dead; once is right.
    """

    streams: int
    whole: int
    cut: int
    failed: int
    open_there: int
    cut_within_s: float
    silent: int
    silent_whole: int
    returned_s: float
    shares: tuple[int, int]
    outages: list[str]
    heard: list[Heard]

    @property
    def is_as_promised(self) -> bool:
        """Only those are cut that spoke on the dead replica, all others are whole, the load spreads again."""
        lost = self.failed + self.silent - self.silent_whole
        is_told = self.cut <= self.open_there and self.cut_within_s <= 2
        return lost == 0 and is_told and min(self.shares) > 0 and len(self.outages) == 1

    def row(self) -> dict[str, str]:
        return {
            "streams": str(self.streams),
            "whole": str(self.whole),
            "cut": f"{self.cut} of {self.open_there} open there",
            "told within": f"{self.cut_within_s:.2f} s",
            "not yet heard": f"{self.silent_whole} of {self.silent} whole",
            "failed": str(self.failed),
            "back after": f"{self.returned_s:.0f} s",
            "outages": str(len(self.outages)),
            "then spread": f"{self.shares[0]} : {self.shares[1]}",
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    environment = Environment.record(options.repository)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        first, second = (
            stack.enter_context(server_at(None, None, _SERVE, options.repository)) for _ in range(2)
        )
        log = folder / "haproxy.log"
        proxy = stack.enter_context(proxy_before((_addresses(first), _addresses(second)), log))
        crowd = stack.enter_context(_Crowd(proxy.address, options.together, options.seconds))
        loss = lose_one(crowd, first, proxy, log, options.streams)
    print(report.table([loss.row()]), *loss.outages, sep="\n")
    settings = {"together": options.together, "seconds": options.seconds, "streams": options.streams}
    report.save(options.out, "replicas", environment, settings, [loss])
    return 0 if loss.is_as_promised else 1


def lose_one(crowd: _Crowd, first: Server, proxy: Proxy, log: Path, streams: int) -> Loss:
    """Half of the streams until and while the first is gone, the other half when it is back."""
    assert first.launcher is not None
    half = streams // 2
    early = crowd.speak(half - crowd.together)
    wait([early[len(early) // 2]])
    early += crowd.speak(crowd.together, at_once=True)
    crowd.await_asked()
    with Client(first.grpc) as told:
        open_there = int(told.load().details["open_streams"])
    killed_s = time.monotonic()
    os.kill(server_pid(first.launcher), signal.SIGKILL)
    _note(f"killed the first replica, which had {open_there} open streams")
    heard = [one.result() for one in early]
    returned_s = _await_line(log, _BACK, killed_s)
    _note(f"it is back after {returned_s:.1f} s")
    before = proxy.requests()
    heard += [one.result() for one in crowd.speak(streams - half)]
    after = proxy.requests()
    cut = [one for one in heard if one.ending is Ending.CUT]
    silent = [one for one in heard if one.asked_s < killed_s and not _has_spoken(one, killed_s)]
    return Loss(
        streams=len(heard),
        whole=sum(one.ending is Ending.WHOLE for one in heard),
        cut=len(cut),
        failed=sum(one.ending is Ending.FAILED for one in heard),
        open_there=open_there,
        cut_within_s=max((one.ended_s - killed_s for one in cut), default=0.0),
        silent=len(silent),
        silent_whole=sum(one.ending is Ending.WHOLE for one in silent),
        returned_s=returned_s,
        shares=(after[0] - before[0], after[1] - before[1]),
        outages=_OUTAGE.findall(log.read_text(encoding="utf-8")),
        heard=heard,
    )


class _Crowd:
    """Listeners behind one connection, each of whom hears one stream after another.

    Args:
        together: streams at once; as many more may come at once.
        seconds: of speech of a stream, at most.
    """

    def __init__(self, address: str, together: int, seconds: float) -> None:
        self.together = together
        self._seconds = seconds
        self._client = Client(address)
        self._pool = ThreadPoolExecutor(together)
        self._burst = ThreadPoolExecutor(together)
        self._asked = threading.Semaphore(0)
        self._count = 0

    def __enter__(self) -> _Crowd:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()
        self._pool.shutdown()
        self._burst.shutdown()

    def speak(self, count: int, *, at_once: bool = False) -> list[Future[Heard]]:
        """So many streams more, beside those that are spoken or in turn."""
        pool = self._burst if at_once else self._pool
        texts = [TEXTS[(self._count + one) % len(TEXTS)] for one in range(count)]
        self._count += count
        return [pool.submit(self._hear, " ".join((text, *TEXTS[:3])), at_once) for text in texts]

    def await_asked(self) -> None:
        """Until the streams that came at once have asked."""
        for _ in range(self.together):
            self._asked.acquire()

    def _hear(self, text: str, tells: bool) -> Heard:
        asked_s, spoke_s, error = time.monotonic(), None, ""
        ending = Ending.FAILED
        speech = self._client.speak(
            text, max_seconds=self._seconds, deadline_s=_STREAM_LIMIT_S, retries=_RETRIES
        )
        if tells:
            self._asked.release()
        try:
            for chunk in speech:
                spoke_s = spoke_s or time.monotonic()
                ending = Ending.WHOLE if chunk.is_last else ending
        except StreamBroken as failure:
            ending, error = Ending.CUT, str(failure)
        except SpeechError as failure:
            ending, error = Ending.FAILED, f"{failure.code}: {failure}"
        return Heard(asked_s, spoke_s, time.monotonic(), ending, error)


def _has_spoken(one: Heard, at_s: float) -> bool:
    return one.spoke_s is not None and one.spoke_s <= at_s


def _addresses(server: Server) -> tuple[str, str]:
    assert server.http is not None
    return server.grpc, server.http


def _await_line(log: Path, line: str, since_s: float) -> float:
    """Seconds until a line is in the proxy's log."""
    while line not in log.read_text(encoding="utf-8"):
        if time.monotonic() > since_s + _RETURN_LIMIT_S:
            raise SystemExit(f"after {_RETURN_LIMIT_S:g} s there is no {line!r} in the proxy's log")
        time.sleep(_LOOK_S)
    return time.monotonic() - since_s


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.replicas", description=__doc__)
    add = parser.add_argument
    add("--streams", type=at_least(40), default=200, help="in all (%(default)s)")
    add("--together", type=at_least(1), default=8, help="at once (%(default)s)")
    add("--seconds", type=float, default=4.0, help="of speech of each, at most (%(default)g)")
    add("--repository", type=Path, default=REPOSITORY, help="(%(default)s)")
    add("--out", type=Path, default=Path("perf/results/replicas.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
