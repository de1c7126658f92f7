"""Measures what steps cost: real steps of the served talker and its drafts, on prompts that say nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from talkahead.backbone.backbone import Backbone
from talkahead.config import RequestOptions
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.drafters import DRAFTERS
from talkahead.engine.decode_step import Admission, DecodeStep, step_clock
from talkahead.engine.method import Method
from talkahead.engine.method_book import MethodBook
from talkahead.engine.step_costs import PLAIN_DRAFTER, StepCost, StepCosts
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter

ROWS = (1, 2, 4, 16)
_PROMPT = 120
"""Positions after which steps are timed: a short prompt and a second or two of speech."""
_STEPS, _WARM_UP = 6, 4
"""Of each size in a round, and of plain ones just before them, after some that nobody counts: caches and
predictors take a few steps to settle."""
_ENOUGH_S, _FEWEST = 0.04, 3
"""After so many seconds and steps of a size its round is over: long steps settle at once."""
_LONGEST = 9
"""Tokens that a step may add at most."""
_PRUNE_RATIO = 1.3
"""A draft that costs so many times what it would have to bring cannot pay, and larger ones are not tried."""
_OPTIONS = RequestOptions()
_PLAIN = RequestOptions(drafter=PLAIN_DRAFTER, verifier="match")


class StepTimer:
    """Times steps in the slots of a backbone that no stream is in yet.

    Args:
        acceptance: by drafter, of one at least; others are not timed.
        clock: seconds; None: as the step's own.
        step: to time; None: one of its own.
        options: of a request that says nothing, by which tokens are drawn.
    """

    def __init__(
        self,
        backbone: Backbone,
        methods: MethodBook,
        acceptance: Mapping[str, Acceptance],
        clock: Callable[[], float] | None = None,
        step: DecodeStep | None = None,
        options: RequestOptions = _OPTIONS,
    ) -> None:
        self._backbone = backbone
        self._methods = methods
        self._acceptance = acceptance
        self._clock = clock or step_clock(backbone.device)
        self._step = step or DecodeStep(backbone, NullDrafter(), MatchVerifier())
        self._options = options
        self._said = 0  # by the stream that has said most, since prompts were read

    def measure(self) -> StepCosts:
        """Plain steps and drafted ones, up to the size that requests get unasked, or that cannot pay.

        Each is timed against plain steps just before it: what else the machine does slows both down.
        """
        drafters = self._methods.offer.drafters
        usual = {name: drafters[name].usual for name in self._acceptance}
        found: list[StepCost] = []
        for rows in (count for count in ROWS if count <= self._backbone.num_slots):
            visits = {name: self._compare(name, sizes, rows) for name, sizes in usual.items()}
            plain = median(visit.plain_s for one in visits.values() for visit in one)
            found.append(StepCost(PLAIN_DRAFTER, 1, rows, plain))
            found += (_cost(name, rows, plain, one) for name, own in visits.items() for one in _by_size(own))
        return StepCosts(tuple(found))

    def _compare(self, drafter: str, sizes: Sequence[int], rows: int) -> list[_Visit]:
        """Every size by turns, up to the first that is hopeless.

        Prompts are read anew where streams have said as much as these hold: positions are what attention
        costs, and reading the prompts of all slots takes as long as a round of steps.
        """
        plain, prompt = self._methods.of(_PLAIN), min(_PROMPT, self._backbone.max_positions // 4)
        methods = {nodes: self._methods.of(_asking_for(drafter, nodes)) for nodes in sizes}
        room = (self._backbone.max_positions - 2 * prompt) // (len(sizes) * (_LONGEST + 1))
        steps, found = max(min(_STEPS, room - _WARM_UP), 1), list[_Visit]()
        for turn in range(_rounds(rows)):
            if turn == 0 or self._said > prompt:
                self._admit(methods[sizes[0]], rows, prompt)
            for nodes, method in methods.items():
                plain_s, seconds = self._seconds(plain, rows, steps), self._seconds(method, rows, steps)
                found.append(_Visit(nodes, plain_s, seconds))
                if seconds > _PRUNE_RATIO * self._acceptance[drafter].of(nodes) * plain_s:
                    break
        for slot in range(rows):
            self._step.release(slot)
        return found

    def _seconds(self, method: Method, rows: int, steps: int) -> float:
        """Median of a few steps, as they are served: under the talker's rules, and replayed where the device
        records."""
        self._step.record(method, self._options, [method.nodes], rows)
        for slot in range(rows):
            self._step.assign(slot, self._step.ruled(method, self._options))
        samples = list[float]()
        while len(samples) < _WARM_UP + steps and (len(samples) < _FEWEST or sum(samples) < _ENOUGH_S):
            before = self._clock()
            drawn = self._step.run(range(rows))
            samples.append(self._clock() - before)
            self._said += int(drawn.counts.max())
        return median(samples[_WARM_UP * len(samples) // (_WARM_UP + steps) :])

    def _admit(self, method: Method, rows: int, length: int) -> None:
        self._said = 0
        rng = np.random.default_rng(0)
        prompts = rng.standard_normal((rows, length, self._backbone.hidden_size)).astype(np.float32)
        self._step.admit(
            [
                Admission(slot, torch.from_numpy(prompts[slot]), self._options, slot, 0, method)
                for slot in range(rows)
            ]
        )


def _rounds(rows: int) -> int:
    """By turns over the sizes of a drafter: more where steps are short, and drafting pays most."""
    return 3 + 6 // rows


@dataclass(frozen=True)
class _Visit:
    """Medians of neighbouring steps, in seconds: plain ones, and with a draft of so many nodes."""

    nodes: int
    plain_s: float
    seconds: float


def _by_size(visits: Sequence[_Visit]) -> Iterator[list[_Visit]]:
    for nodes in dict.fromkeys(visit.nodes for visit in visits):
        yield [visit for visit in visits if visit.nodes == nodes]


def _cost(drafter: str, rows: int, plain_s: float, visits: Sequence[_Visit]) -> StepCost:
    """From visits of one size: the median and its spread, so that noise speaks for no draft."""
    ratios = [visit.seconds / visit.plain_s for visit in visits]
    ratio = median(ratios)
    spread = median(abs(one - ratio) for one in ratios) / ratio
    return StepCost(drafter, visits[0].nodes, rows, ratio * (1.0 + spread) * plain_s, spread)


def _asking_for(drafter: str, nodes: int) -> RequestOptions:
    """A request with a pinned draft of so many nodes."""
    spec = DRAFTERS[drafter]
    return RequestOptions.from_parameters(
        {"drafter": drafter, "verifier": "match", "pin_draft": True, spec.size_option: spec.size_of(nodes)}
    )
