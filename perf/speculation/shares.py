"""Where a step's time goes: the target's forward, the draft, and everything else.

CPU time of the decoding thread. The least of several repeats that do the same work: what else the machine does
only ever adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt
from talkahead.backbone.backbone import Backbone
from talkahead.engine.decode_step import Admission, DecodeStep, Drawn
from talkahead.speculation.contracts import Drafter, Verifier

from perf.speculation.installation import Installation
from perf.speculation.methods import PLAIN, Likeness, Method
from perf.speculation.plan import DRAFT_LM, HEADLINE_SIZE, HEADLINE_TOP_K, near
from perf.speculation.studio import Loop, Studio

_NODES = 8
"""Of a tree of heads."""
_WARM_UP = 2


@dataclass(frozen=True)
class Shares:
    """Microseconds of one step of `streams` rows.

    Args:
        forward_us: the target's.
        draft_us: proposing.
        else_us: accepting, drawing, committing, observing, and the Python between.
    """

    drafter: str
    verifier: str
    title: str
    streams: int
    forward_us: float
    draft_us: float
    else_us: float
    committed_per_step: float

    @property
    def else_share(self) -> float:
        return self.else_us / (self.forward_us + self.draft_us + self.else_us)

    def line(self) -> dict[str, str]:
        return {
            "method": self.title,
            "streams": str(self.streams),
            "forward us": f"{self.forward_us:.0f}",
            "draft us": f"{self.draft_us:.0f}",
            "else us": f"{self.else_us:.0f}",
            "else %": f"{100 * self.else_share:.1f}",
            "A": f"{self.committed_per_step:.2f}",
        }


def pairs(found: Installation) -> Iterator[Method]:
    """One of each kind of draft and of walk."""
    yield PLAIN
    yield Method("heads", "match", {"nodes": _NODES})
    yield Method("mtp", "topk", {"top_k_verify": HEADLINE_TOP_K})
    for verifier in ("match", "ratio"):
        yield Method(DRAFT_LM, verifier)
    if known := found.similarities(Likeness.EMBEDDING):
        yield Method(DRAFT_LM, "groups", {"similarity": near(known, HEADLINE_SIZE).threshold})


class _Watch:
    """CPU seconds of this thread."""

    def __init__(self) -> None:
        self.forward_s = self.draft_s = self.steps_s = 0.0
        self.steps = self.rows = self.committed = 0


class _Timed:
    """Everything of an object, with the time that some of its methods take."""

    def __init__(self, timed: object, methods: Sequence[str], add: Callable[[float], None]) -> None:
        self._timed = timed
        for name in methods:
            setattr(self, name, _timing(getattr(timed, name), add))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timed, name)


def _timing(function: Callable[..., Any], add: Callable[[float], None]) -> Callable[..., Any]:
    def timed(*arguments: object) -> object:
        began = time.thread_time()
        result = function(*arguments)
        add(time.thread_time() - began)
        return result

    return timed


class _WatchedStep(DecodeStep):
    def __init__(self, watch: _Watch, backbone: Backbone, drafter: Drafter, verifier: Verifier) -> None:
        def forward(seconds: float) -> None:
            watch.forward_s += seconds

        def draft(seconds: float) -> None:
            watch.draft_s += seconds

        scoring: Any = _Timed(backbone, ("score",), forward)
        proposing: Any = _Timed(drafter, ("propose",), draft)
        super().__init__(scoring, proposing, verifier)
        self._watch = watch

    def admit(self, admissions: list[Admission]) -> npt.NDArray[Any]:
        return super().admit(admissions)

    def run(self, rows: slice) -> Drawn:
        began = time.thread_time()
        drawn = super().run(rows)
        watch = self._watch
        watch.steps_s += time.thread_time() - began
        watch.steps += 1
        watch.rows += rows.stop - rows.start
        watch.committed += int(drawn.counts.sum())
        return drawn


def measure(studio: Studio, method: Method, streams: int, sentences: int, repeats: int) -> Shares:
    """Raises ValueError without a repeat."""
    loop = studio.loop(method, streams)
    _run(studio, loop, method, range(_WARM_UP))
    runs = [_run(studio, loop, method, range(sentences)) for _ in range(repeats)]
    first, steps = runs[0], runs[0].steps
    forward, draft = (min(getattr(run, name) for run in runs) for name in ("forward_s", "draft_s"))
    others = min(run.steps_s - run.forward_s - run.draft_s for run in runs)
    return Shares(
        drafter=method.drafter,
        verifier=method.verifier,
        title=method.title,
        streams=streams,
        forward_us=1e6 * forward / steps,
        draft_us=1e6 * draft / steps,
        else_us=1e6 * others / steps,
        committed_per_step=first.committed / first.rows,
    )


def _run(studio: Studio, loop: Loop, method: Method, span: range) -> _Watch:
    watch = _Watch()
    studio.speak(loop, method, span, 1, partial(_WatchedStep, watch))
    return watch
