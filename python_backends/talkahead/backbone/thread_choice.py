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
_WORTH = 0.9
"""Of a step's time, at most, with twice the threads."""
_PROMPT, _WARM_UP, _STEPS = 8, 2, 5


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
    ) -> None:
        """Once it is loaded, and nobody speaks in it yet: one where that is enough, or else as many, by
        doubling, as still make its steps faster; what is loaded later follows.

        Args:
            backbone: loaded with the threads that were claimed.
            tokens_per_s: of speech.
        """
        most, threads = torch.get_num_threads(), 1
        if self.told is not None or most == 1:
            return
        seconds = _step_s(backbone, threads, clock)
        while seconds * tokens_per_s > _ENOUGH and threads < most:
            more = min(2 * threads, most)
            faster = _step_s(backbone, more, clock)
            if faster > _WORTH * seconds:
                break
            threads, seconds = more, faster
        _share(backbone, threads)


def most_threads() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _share(backbone: Backbone, threads: int) -> None:
    torch.set_num_threads(threads)
    if isinstance(backbone, NativeDecoder):
        backbone.share(threads)


def _step_s(backbone: Backbone, threads: int, clock: Callable[[], float]) -> float:
    """A plain step of one stream, in seconds."""
    _share(backbone, threads)
    backbone.prefill([0], torch.zeros(1, _PROMPT, backbone.hidden_size), [_PROMPT])
    root = TokenTree(torch.zeros(1, 1, 1, dtype=torch.int64, device=backbone.device))
    row, samples = Rows.of([0], backbone.device), list[float]()
    for _ in range(_WARM_UP + _STEPS):
        before = clock()
        backbone.score(root, row)
        samples.append(clock() - before)
    backbone.release(0)
    return median(samples[_WARM_UP:])
