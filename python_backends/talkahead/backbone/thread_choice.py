"""How many threads share a talker's forwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Self

import torch

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import AUTO, ModelConfig
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree

_ENOUGH = 0.25
"""Of the time in which a stream's speech is heard: where its plain steps take no more on one thread, the
other cores are the other models'. A talker of a billion weights takes more than one core has."""
_SOON_S = 0.005
"""That a short sentence's prompt may take on one thread. A longer one is shared by all cores: whoever is free
takes the next part of it, and helpers run where nobody else wants to, so that a core which others keep busy
costs nothing but its help. An EPYC of Zen 3 takes 9 ms: a single stream's first chunk comes after 0.90 to
0.97 of its time (three runs by turns), and as much is spoken as before."""
_WORTH = 0.9
"""Of the time, at most, with twice the threads."""
_BEFORE, _PROMPT = 8, 48
"""Rows before the steps that are timed, and of the prompts: of a short sentence."""
_WARM_UP, _TIMES = 2, 5


@dataclass(frozen=True)
class ThreadChoice:
    """
    Args:
        told: None: as many as steps gain by, which is measured; on a device one.
    """

    told: int | None

    @classmethod
    def of(cls, config: ModelConfig) -> Self:
        """As a talker's config.pbtxt has it; raises BadRequest."""
        return cls(None if config.parameters.get("threads") == AUTO else config.whole("threads", 1))

    def claim(self, device: torch.device) -> None:
        """Before the talker is loaded: the threads of this process."""
        cores = most_threads() if device.type == "cpu" else 1
        torch.set_num_threads(self.told or cores)

    def settle(
        self, backbone: Backbone, tokens_per_s: float, clock: Callable[[], float] = time.perf_counter
    ) -> Threads:
        """Once it is loaded, and nobody speaks in it yet.

        Steps have one where that is enough, or else as many, by doubling, as still make them faster; what is
        loaded later follows. Prompts have as many, or, where they would keep a listener waiting, all.

        Args:
            backbone: loaded with the threads that were claimed.
            tokens_per_s: of speech.
        """
        most = torch.get_num_threads()
        if self.told is not None or most == 1:
            return Threads(most, most)
        bench = _Bench(backbone, clock)
        steps = prompts = _by_doubling(bench.step_s, most, _ENOUGH / tokens_per_s)
        if steps < most and isinstance(backbone, NativeDecoder) and bench.prompt_s() > _SOON_S:
            prompts = most
        bench.share(steps, prompts)
        return Threads(steps, prompts)


@dataclass(frozen=True)
class Threads:
    """That share a talker's steps, and its prompts."""

    steps: int
    prompts: int


def most_threads() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _by_doubling(seconds_with: Callable[[int], float], most: int, enough_s: float) -> int:
    threads, seconds = 1, seconds_with(1)
    while seconds > enough_s and threads < most:
        more = min(2 * threads, most)
        faster = seconds_with(more)
        if faster > _WORTH * seconds:
            break
        threads, seconds = more, faster
    return threads


@dataclass(frozen=True)
class _Bench:
    """Times what a backbone does, in seconds."""

    backbone: Backbone
    clock: Callable[[], float]

    def share(self, steps: int, prompts: int | None = None) -> None:
        torch.set_num_threads(steps)
        if isinstance(self.backbone, NativeDecoder):
            self.backbone.share(steps, prompts)

    def step_s(self, threads: int) -> float:
        """A plain step of one stream, with so many threads."""
        self.share(threads)
        self._read(_BEFORE)
        root = TokenTree(torch.zeros(1, 1, 1, dtype=torch.int64, device=self.backbone.device))
        row = Rows.of([0], self.backbone.device)
        taken = self._timed(lambda: self.backbone.score(root, row))
        self.backbone.release(0)
        return taken

    def prompt_s(self) -> float:
        """With one thread."""
        self.share(1)
        taken = self._timed(lambda: self._read(_PROMPT))
        self.backbone.release(0)
        return taken

    def _read(self, rows: int) -> None:
        self.backbone.prefill([0], torch.zeros(1, rows, self.backbone.hidden_size), [rows])

    def _timed(self, call: Callable[[], object]) -> float:
        samples = list[float]()
        for _ in range(_WARM_UP + _TIMES):
            before = self.clock()
            call()
            samples.append(self.clock() - before)
        return median(samples[_WARM_UP:])
