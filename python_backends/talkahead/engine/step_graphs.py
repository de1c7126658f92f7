"""Whole steps as graphs of a device: drafted, scored, verified and brought to their next roots in one replay.

What a step reads and writes lies by slot, so that a graph differs from the next step's by nothing but which
slots its rows are. Steps are padded to powers of two rows with a slot that no stream has: all such rows are
one stream there, which begins anew with each step.

Shapes: S running rows, M accepted nodes at most, C codebooks.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.forward_graphs import GraphRecorder, bucket_sizes, recording
from talkahead.engine.method import Method
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.history_rules import HistoryRules
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import TreeShape

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepOutcome:
    """What a step of rows of one method drew: tokens [S, M, C], counts [S], with trees of `shape`."""

    tokens: Tensor
    counts: Tensor
    shape: TreeShape

    def copied(self) -> StepOutcome:
        return StepOutcome(self.tokens.clone(), self.counts.clone(), self.shape)


class _Key(NamedTuple):
    """What steps of one graph have in common, but for how many tokens they look at."""

    drafter: Drafter
    verifier: Verifier
    rules: HistoryRules
    returns_probs: bool
    nodes: int | None


@dataclass(frozen=True)
class StepKind:
    """What a graph depends on.

    Args:
        nodes: that are drafted; see `Method.nodes_among`.
        support: tokens that are looked at for each draw; None: all. More than needed change no draw.
    """

    method: Method
    nodes: int | None
    support: int | None

    @property
    def key(self) -> _Key:
        own = self.method
        return _Key(own.drafter, own.verifier, own.rules, own.returns_probs, self.nodes)


Step = Callable[[StepKind, Rows], StepOutcome]
"""Computes a step from the slots and back to them without a word to the host, and leaves the spare slot as it
found it."""


@dataclass(frozen=True)
class StepGraph:
    """
    Args:
        slots: int64 [S], which it reads; those after a step's rows are the spare slot.
        outcome: which it writes.
    """

    kind: StepKind
    slots: Tensor
    spare: int
    outcome: StepOutcome
    run: Callable[[], None]

    def replay(self, rows: Rows) -> StepOutcome:
        """What the rows drew, which holds until the graph's next replay."""
        count = len(rows.slots)
        self.slots[:count] = rows.slots
        self.slots[count:] = self.spare
        self.run()
        self.kind.method.drafter.replayed(self.outcome.shape, rows)
        return StepOutcome(self.outcome.tokens[:count], self.outcome.counts[:count], self.outcome.shape)


class StepGraphs:
    """Graphs by what steps do, tokens looked at, and rows.

    Attributes:
        tell: called for each step that was replayed; must return at once.
    """

    def __init__(self, recorder: GraphRecorder, step: Step, backbone: Backbone, spare: int) -> None:
        self.tell: Callable[[], None] = _tell_nobody
        self._recorder: GraphRecorder | None = recorder
        self._step = step
        self._spare = spare
        self._device, self._vocabulary = backbone.device, backbone.vocab_size
        self._rows = bucket_sizes(backbone.num_slots)
        self._graphs: dict[_Key, dict[tuple[int, int], StepGraph]] = {}
        """By (tokens looked at, rows)."""

    @property
    def count(self) -> int:
        return sum(map(len, self._graphs.values()))

    @torch.inference_mode()
    def record(self, kind: StepKind, rows: int | None = None) -> None:
        """For so many rows, or any number. Where the device refuses, there is a line in the log, and nothing
        more is recorded."""
        known = self._graphs.setdefault(kind.key, {})
        # The largest first: what it takes of the device's memory, the others make do with.
        for size in [self._bucket(rows)] if rows is not None else reversed(self._rows):
            place = (self._support(kind), size)
            if self._recorder is None or place in known:
                continue
            try:
                known[place] = self._recorded(self._recorder, kind, size)
            except RuntimeError as error:
                _LOG.warning("steps are launched one operation after another, not as graphs: %s", error)
                self._recorder = None

    def find(self, kind: StepKind, rows: Rows) -> StepGraph | None:
        """The graph for a step, or None: none was recorded that does as much, or the host knows of the rows
        that they want more."""
        known = self._graphs.get(kind.key)
        if not known or not kind.method.drafter.can_replay(rows):
            return None
        size, support = self._bucket(len(rows.slots)), self._support(kind)
        fitting = [looked_at for looked_at, own in known if own == size and looked_at >= support]
        return known[min(fitting), size] if fitting else None

    def _bucket(self, rows: int) -> int:
        return self._rows[bisect_left(self._rows, rows)]

    def _support(self, kind: StepKind) -> int:
        return min(kind.support or self._vocabulary, self._vocabulary)

    def _recorded(self, recorder: GraphRecorder, kind: StepKind, size: int) -> StepGraph:
        slots = torch.full((size,), self._spare, dtype=torch.int64, device=self._device)
        rows = Rows(slots)

        def step() -> StepOutcome:
            with recording():
                return self._step(kind, rows)

        outcome = step().copied()

        def work() -> None:
            computed = step()
            outcome.tokens.copy_(computed.tokens)
            outcome.counts.copy_(computed.counts)

        return StepGraph(kind, slots, self._spare, outcome, recorder.record(work))


def _tell_nobody() -> None:
    return None
