"""Where a step's time goes: the target's forward, the draft, and everything else.

CPU time of the decoding thread; of several repeats, which do the same work, the one with the least. A forward
is the call for it, with the little that is no product in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from talkahead.speculation.contracts import Scored
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TokenTree

from perf.speculation.installation import Installation
from perf.speculation.methods import PLAIN, Method
from perf.speculation.plan import DRAFT_LM, HEADLINE_SIZE, HEADLINE_TOP_K, near
from perf.speculation.runner import Loop, Runner
from perf.speculation.speed import StepInParts, Stopwatch

_NODES = 8
"""Of a tree of heads."""
_WARM_UP = 2
"""Sentences that nobody counts."""


@dataclass(frozen=True)
class Shares:
    """Microseconds of one step of `streams` rows.

    Args:
        forward_us: the target's.
        draft_us: proposing, and following what became of it.
        else_us: walking, drawing, committing, going on to the next roots, and the Python between.
    """

    drafter: str
    verifier: str
    title: str
    streams: int
    forward_us: float
    draft_us: float
    else_us: float

    @property
    def else_share(self) -> float:
        return self.else_us / (self.forward_us + self.draft_us + self.else_us)

    def line(self) -> dict[str, str]:
        return {
            "method": self.title,
            "streams": str(self.streams),
            "forward, us": f"{self.forward_us:.0f}",
            "draft, us": f"{self.draft_us:.0f}",
            "else, us": f"{self.else_us:.0f}",
            "else, %": f"{100 * self.else_share:.1f}",
        }


def pairs(found: Installation) -> Iterator[Method]:
    """One of each kind of draft and of walk."""
    yield PLAIN
    yield Method("heads", "match", {"nodes": _NODES})
    yield Method("mtp", "topk", {"top_k_verify": HEADLINE_TOP_K})
    for verifier in ("match", "ratio"):
        yield Method(DRAFT_LM, verifier)
    if known := found.similarities():
        yield Method(DRAFT_LM, "groups", {"similarity": near(known, HEADLINE_SIZE).threshold})


class _Watch(Stopwatch):
    """Knows forwards as well."""

    forwards_s = 0.0

    @property
    def others_s(self) -> float:
        return self.steps_s - self.drafts_s - self.forwards_s


class _Step(StepInParts):
    _watch: _Watch

    def _score(self, trees: Sequence[TokenTree], rows: Rows) -> list[Scored]:
        began = time.thread_time()
        scored = super()._score(trees, rows)
        self._watch.forwards_s += time.thread_time() - began
        return scored


def measure(runner: Runner, method: Method, streams: int, sentences: int, repeats: int) -> Shares:
    """With sentences for every stream; the pool is full until the last ones end."""
    loop = runner.loop(method, streams)
    _run(runner, loop, method, range(_WARM_UP))
    runs = [_run(runner, loop, method, range(sentences)) for _ in range(repeats)]
    best = min(runs, key=lambda run: run.steps_s)
    scale = 1e6 * streams / best.row_steps
    return Shares(
        drafter=method.drafter,
        verifier=method.verifier,
        title=method.title,
        streams=streams,
        forward_us=best.forwards_s * scale,
        draft_us=best.drafts_s * scale,
        else_us=best.others_s * scale,
    )


def _run(runner: Runner, loop: Loop, method: Method, span: range) -> _Watch:
    watch = _Watch()
    runner.speak(loop, method, span, 1, partial(_Step, watch))
    return watch
