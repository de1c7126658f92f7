"""Listeners behind a proxy, and what becomes of their streams."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from talkahead_client import Client, SpeechError, StreamBroken

from perf.texts import TEXTS

_STREAM_LIMIT_S = 60.0


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

    def has_spoken(self, at_s: float) -> bool:
        return self.spoke_s is not None and self.spoke_s <= at_s


class Crowd:
    """Listeners behind one connection, each of whom hears one stream after another.

    Args:
        together: streams at once; as many more may come at once.
        seconds: of speech of a stream, at most.
        retries: of a stream that has not spoken yet.
    """

    def __init__(self, address: str, together: int, seconds: float, retries: int) -> None:
        self.together = together
        self._retries = retries
        self._seconds = seconds
        self._client = Client(address)
        self._pool = ThreadPoolExecutor(together)
        self._burst = ThreadPoolExecutor(together)
        self._asked = threading.Semaphore(0)
        self._texts = itertools.cycle(TEXTS)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()
        self._pool.shutdown()
        self._burst.shutdown()

    def speak(self, count: int, *, at_once: bool = False) -> list[Future[Heard]]:
        """So many streams more, beside those that are spoken or in turn."""
        pool = self._burst if at_once else self._pool
        return [pool.submit(self._hear, next(self._texts), at_once) for _ in range(count)]

    def keep_speaking(self, over: threading.Event) -> list[Future[list[Heard]]]:
        """What each listener hears until it is over; the last stream is heard to its end."""

        def listen() -> list[Heard]:
            heard: list[Heard] = []
            while not over.is_set():
                heard.append(self._hear(next(self._texts)))
            return heard

        return [self._pool.submit(listen) for _ in range(self.together)]

    def await_asked(self) -> None:
        """Until the streams that came at once have asked."""
        for _ in range(self.together):
            self._asked.acquire()

    def _hear(self, text: str, tells: bool = False) -> Heard:
        asked_s, spoke_s, error = time.monotonic(), None, ""
        ending = Ending.FAILED
        speech = self._client.speak(
            " ".join((text, *TEXTS[:3])),
            max_seconds=self._seconds,
            deadline_s=_STREAM_LIMIT_S,
            retries=self._retries,
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
