"""Measures what steps cost: real steps of the served talker and its drafts, on prompts that say nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
import torch

from talkahead.backbone.backbone import Backbone
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission, DecodeStep, step_clock
from talkahead.engine.method import Method
from talkahead.engine.method_book import MethodBook
from talkahead.engine.step_costs import PLAIN_DRAFTER, StepCost, StepCosts
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.pairs import DRAFTER_OPTIONS

ROWS = (1, 2, 4, 8, 16)
_PROMPT = 120
"""Positions behind which steps are timed: a short prompt and a second or two of speech."""
_ROUNDS = 3
"""By turns over the sizes of a drafter; the fastest counts, as what disturbs a machine only slows it down."""
_STEPS = 10
"""Of each size in a round, and one before them that nobody counts."""
_LONGEST = 9
"""Tokens that a step may add at most."""
_HOPELESS = 5.0
"""A draft that costs so many plain steps cannot pay, and larger ones are not tried."""


class StepTimer:
    """Times steps in the slots of a backbone that no stream is in yet.

    Args:
        clock: seconds; None: as the step's own.
    """

    def __init__(
        self, backbone: Backbone, methods: MethodBook, clock: Callable[[], float] | None = None
    ) -> None:
        self._backbone = backbone
        self._methods = methods
        self._clock = clock or step_clock(backbone.device)
        self._step = DecodeStep(backbone, NullDrafter(), MatchVerifier())

    def measure(self) -> StepCosts:
        """Plain steps and those of every drafter, up to the size that requests get unasked."""
        drafters = self._methods.offer.drafters
        usual = {name: [size for size in own.nodes if size <= own.default] for name, own in drafters.items()}
        found: list[StepCost] = []
        for rows in (count for count in ROWS if count <= self._backbone.num_slots):
            (plain,) = self._time(PLAIN_DRAFTER, [1], rows, limit_s=float("inf"))
            found.append(plain)
            for name, sizes in usual.items():
                found += self._time(name, sizes, rows, limit_s=_HOPELESS * plain.seconds)
        return StepCosts(tuple(found))

    def _time(self, drafter: str, sizes: Sequence[int], rows: int, limit_s: float) -> list[StepCost]:
        """Of each size up to the first whose steps take longer than `limit_s`."""
        methods = {nodes: self._methods.of(_asking_for(drafter, nodes)) for nodes in sizes}
        prompt = min(_PROMPT, self._backbone.max_positions // 4)
        self._admit(methods[sizes[0]], rows, prompt)
        room = (self._backbone.max_positions - prompt) // (_ROUNDS * len(sizes) * _LONGEST)
        fastest: dict[int, float] = {}
        for _ in range(_ROUNDS):
            for nodes, method in methods.items():
                seconds = self._visit(method, rows, min(_STEPS, room - 1))
                fastest[nodes] = min(seconds, fastest.get(nodes, seconds))
                if fastest[nodes] > limit_s:
                    break
        for slot in range(rows):
            self._step.release(slot)
        return [StepCost(drafter, nodes, rows, seconds) for nodes, seconds in fastest.items()]

    def _visit(self, method: Method, rows: int, steps: int) -> float:
        """Median seconds of a few steps."""
        for slot in range(rows):
            self._step.assign(slot, method)
        samples = []
        for _ in range(1 + max(steps, 1)):
            before = self._clock()
            self._step.run(slice(0, rows))
            samples.append(self._clock() - before)
        return median(samples[1:])

    def _admit(self, method: Method, rows: int, length: int) -> None:
        rng = np.random.default_rng(0)
        prompts = rng.standard_normal((rows, length, self._backbone.hidden_size)).astype(np.float32)
        options = RequestOptions()
        self._step.admit(
            [Admission(slot, torch.from_numpy(prompts[slot]), options, slot, 0, method) for slot in range(rows)]
        )


def _asking_for(drafter: str, nodes: int) -> RequestOptions:
    """A request with a pinned draft of so many nodes."""
    if drafter == PLAIN_DRAFTER:
        return RequestOptions(drafter=drafter, verifier="match")
    is_tree = "nodes" in DRAFTER_OPTIONS[drafter]
    return RequestOptions(
        drafter=drafter,
        verifier="match",
        pin_draft=True,
        nodes=nodes if is_tree else None,
        draft_length=None if is_tree else nodes - 1,
    )
