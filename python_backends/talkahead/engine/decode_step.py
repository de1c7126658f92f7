"""One step of all running rows: propose, score, accept, commit, observe; one copy back to the host.

Neighbouring rows of one method (drafter, verifier, size of the draft) are a part; all parts are scored in one
forward. The step is one object so that a CUDA graph per (rows, nodes) can take its place.

Shapes: R slots, S running rows, M accepted nodes at most, C codebooks, F frames of a segment at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.backbone import Backbone
from talkahead.config import RequestOptions
from talkahead.engine.method import Method
from talkahead.speculation.contracts import Context, Drafter, Scored, Verifier, Wish
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.next_roots import advance_rows
from talkahead.speculation.sampling import SamplingSettings, draw
from talkahead.speculation.token_tree import TokenTree

_CONTEXTS = 32
"""Kept at once: each holds room for its rows' drafts, and mixed pools have a great many."""


@dataclass(frozen=True)
class Drawn:
    """What a step added to each running row, on the host.

    Args:
        tokens: int64 [S, M], in order; row s holds counts[s] of them.
        counts: int64 [S], at least 1.
        num_drafted: int64 [S], nodes proposed, the root not counted.
    """

    tokens: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    num_drafted: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Admission:
    """One segment that enters a slot: its prompt [P, D], its options and the seed of its draws.

    Args:
        method: how it is drafted for and verified; None: as the step's own.
    """

    slot: int
    prompt: Tensor
    options: RequestOptions
    seed: int
    segment: int
    method: Method | None = None


@dataclass(frozen=True)
class _Part:
    """Neighbouring rows of one method."""

    rows: slice
    method: Method


@dataclass(frozen=True)
class _Outcome:
    """What a part drew: tokens [rows, M], counts [rows], from trees of `nodes`."""

    tokens: Tensor
    counts: Tensor
    nodes: int


class DecodeStep:
    """Slot-indexed state of decoding, and the loop's body over it.

    Args:
        drafter, verifier: of segments that bring no method of their own.
        clock: seconds, by which methods learn what their steps cost; None: `step_clock`.
    """

    def __init__(
        self,
        backbone: Backbone,
        drafter: Drafter,
        verifier: Verifier,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        slots, device = backbone.num_slots, backbone.device
        self._backbone = backbone
        self._clock = clock or step_clock(backbone.device)
        self._default = Method(drafter, verifier)
        self._methods = [self._default] * slots
        self._parts: dict[tuple[int, int], list[_Part]] = {}
        self._roots = torch.zeros((slots, 1), dtype=torch.int64, device=device)
        self._positions = torch.zeros(slots, dtype=torch.int64, device=device)
        self._hidden = torch.zeros((slots, backbone.hidden_size), dtype=backbone.dtype, device=device)
        self._frames = torch.zeros((slots, backbone.max_positions, 1), dtype=torch.int64, device=device)
        self._keys = torch.zeros(slots, dtype=torch.int64, device=device)
        self._contexts: dict[tuple[int, int, int | None, bool, int], Context] = {}
        self._is_plain_memory = self._hidden.is_cpu and self._hidden.dtype is torch.float32
        """Native code reads and writes the state where it lies."""
        zeros = torch.zeros(slots, dtype=torch.float64, device=device)
        self._settings = SamplingSettings.of(zeros, self._positions, zeros + 1.0)

    @torch.inference_mode()
    def admit(self, admissions: list[Admission]) -> npt.NDArray[np.int64]:
        """Prefill all of them together and draw each one's first token, int64 [B]: never EOS."""
        slots = [admission.slot for admission in admissions]
        lengths = [len(admission.prompt) for admission in admissions]
        prompts = torch.nn.utils.rnn.pad_sequence([one.prompt for one in admissions], batch_first=True)
        where = torch.tensor(slots, device=self._keys.device)
        self._write_settings(where, admissions)
        scored = self._backbone.prefill(slots, prompts, lengths)
        for slot, admission in zip(slots, admissions, strict=True):
            self.assign(slot, admission.method or self._default)
        for drafter in {id(one): one for one in map(self._drafter_of, slots)}.values():
            own = [line for line, slot in enumerate(slots) if self._drafter_of(slot) is drafter]
            drafter.admit([slots[line] for line in own], prompts[own], [lengths[line] for line in own])
        return self._draw_first(where, scored)

    def method_of(self, slot: int) -> Method:
        return self._methods[slot]

    def _drafter_of(self, slot: int) -> Drafter:
        return self._methods[slot].drafter

    def assign(self, slot: int, method: Method) -> None:
        """The slot's segment goes on so; without a new prompt, only with the drafter of its admission."""
        if self._methods[slot] is not method:
            self._methods[slot] = method
            self._parts.clear()

    def _write_settings(self, where: Tensor, admissions: list[Admission]) -> None:
        def column(values: list[int] | list[float], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=where.device)

        options = [admission.options for admission in admissions]
        self._settings[where] = SamplingSettings.of(
            column([one.temperature for one in options], torch.float64),
            column([one.top_k for one in options], torch.int64),
            column([one.top_p for one in options], torch.float64),
        )
        self._keys[where] = stream_keys(
            column([one.seed for one in admissions], torch.int64),
            column([one.segment for one in admissions], torch.int64),
        )

    def _draw_first(self, where: Tensor, scored: Scored) -> npt.NDArray[np.int64]:
        scored.logits[:, 0, self._backbone.eos] = -torch.inf  # an utterance has at least one frame
        zeros = torch.zeros_like(where)
        first = draw(scored.logits, self._settings[where], self._keys[where], zeros[:, None])
        self._roots[where] = first
        self._positions[where] = zeros
        self._frames[where, 0] = first
        self._hidden[where] = scored.hidden[:, 0]
        drawn: npt.NDArray[np.int64] = first[:, 0].cpu().numpy()
        return drawn

    @torch.inference_mode()
    def run(self, rows: slice) -> Drawn:
        """Decode the slots of `rows` once."""
        began, count = self._clock(), rows.stop - rows.start
        parts = self._parts_of(rows)
        contexts = [self._context(part, count) for part in parts]
        trees = [_draft(part.method.drafter, context) for part, context in zip(parts, contexts, strict=True)]
        scored = self._score(trees, rows)
        outcomes = [self._settle(*entries) for entries in zip(parts, trees, scored, contexts, strict=True)]
        drawn = _on_host(outcomes)
        self._learn(parts, outcomes, drawn, began)
        return drawn

    def _parts_of(self, rows: slice) -> list[_Part]:
        """Kept until a slot's method changes."""
        parts = self._parts.get((rows.start, rows.stop))
        if parts is None:
            parts, first = [], rows.start
            for slot in range(rows.start, rows.stop):
                if slot + 1 == rows.stop or self._methods[slot + 1] is not self._methods[slot]:
                    parts.append(_Part(slice(first, slot + 1), self._methods[slot]))
                    first = slot + 1
            self._parts[rows.start, rows.stop] = parts
        return parts

    def _score(self, trees: Sequence[TokenTree], rows: slice) -> list[Scored]:
        if len(trees) == 1:
            return [self._backbone.score(trees[0], rows)]
        return self._backbone.score_mixed(trees, rows)

    def _settle(self, part: _Part, tree: TokenTree, scored: Scored, context: Context) -> _Outcome:
        """Accept what is right of a part's trees, and bring its rows to their next roots."""
        verifier = part.method.verifier
        accepted = verifier.accept(tree, scored, context)
        self._backbone.commit(accepted, tree.shape, part.rows)
        part.method.drafter.observe(tree, scored, accepted, context)
        tokens = advance_rows(tree, scored, accepted, context)
        if verifier.history_frames:
            self._remember(context, tokens, accepted.counts)
        return _Outcome(tokens, accepted.counts, tree.num_nodes)

    def _learn(
        self, parts: Sequence[_Part], outcomes: Sequence[_Outcome], drawn: Drawn, began: float
    ) -> None:
        """Tell budgets what their trees brought, and what the step cost."""
        first, seconds = 0, self._clock() - began
        for part, outcome in zip(parts, outcomes, strict=True):
            budget, rows = part.method.budget, len(outcome.counts)
            if budget is not None:
                own = int(drawn.counts[first : first + rows].sum())
                others = int(drawn.counts.sum()) - own
                budget.observe_gain(outcome.nodes, own / rows, rows, others / rows)
                budget.observe_cost(len(drawn.counts), outcome.nodes, seconds)
            first += rows

    def _context(self, part: _Part, count: int) -> Context:
        """Views of the state, which stay valid because the state is only ever written in place."""
        rows, method = part.rows, part.method
        nodes = method.nodes_among(count)
        tells_probs, trials = method.tells_probs, method.verifier.trials
        key = (rows.start, rows.stop, nodes, tells_probs, trials)
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) == _CONTEXTS:
                self._contexts.clear()
            context = Context(
                rows=rows,
                roots=self._roots[rows],
                positions=self._positions[rows],
                hidden=self._hidden[rows],
                frames=self._frames[rows],
                keys=self._keys[rows],
                settings=self._settings[rows],
                wish=Wish(nodes, tells_probs, trials),
                kept={} if self._is_plain_memory else None,
            )
            self._contexts[key] = context
        return context

    def _remember(self, context: Context, tokens: Tensor, counts: Tensor) -> None:
        """Write what was drawn behind each row's frames; beyond a row's count it is overwritten later."""
        first = context.positions - counts + 1
        behind = first[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        behind = behind.clamp_max(self._frames.shape[1] - 1)
        context.frames.scatter_(1, behind[:, :, None], tokens[:, :, None])

    def move(self, source: int, target: int) -> None:
        """Row `target` takes over what `source` holds."""
        self._backbone.move(source, target)
        self._drafter_of(source).move(source, target)
        self.assign(target, self._methods[source])
        for state in self._states():
            state[target] = state[source]

    def swap(self, first: int, second: int) -> None:
        self._backbone.swap(first, second)
        one, other = self._methods[first], self._methods[second]
        if one.drafter is other.drafter:
            one.drafter.swap(first, second)
        else:  # what a drafter holds of a row that is not its own is of no use
            one.drafter.move(first, second)
            other.drafter.move(second, first)
        self.assign(first, other)
        self.assign(second, one)
        for state in self._states():
            state[[first, second]] = state[[second, first]]

    def release(self, slot: int) -> None:
        self._backbone.release(slot)
        self._drafter_of(slot).release(slot)

    def _states(self) -> tuple[Tensor, ...]:
        return (
            self._roots,
            self._positions,
            self._hidden,
            self._frames,
            self._keys,
            *self._settings.columns,
        )


def step_clock(device: torch.device) -> Callable[[], float]:
    """By which the costs of steps are compared: seconds of the thread's own, where it does all the work.

    So what else keeps the machine busy does not decide how much is drafted.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.thread_time if alone else time.perf_counter


def _draft(drafter: Drafter, context: Context) -> TokenTree:
    """The drafter's trees, or roots alone where nothing is wanted of it."""
    return context.roots_alone if context.wish.nodes == 1 else drafter.propose(context)


@lru_cache(maxsize=256)
def _same(count: int, value: int) -> npt.NDArray[np.int64]:
    """[count], read only."""
    same = np.full(count, value)
    same.flags.writeable = False
    return same


def _on_host(outcomes: Sequence[_Outcome]) -> Drawn:
    """All parts' rows in order, in one copy each of tokens and counts."""
    tokens, counts = outcomes[0].tokens, outcomes[0].counts
    drafted = _same(len(counts), outcomes[0].nodes - 1)
    if len(outcomes) > 1:
        longest = max(one.tokens.shape[1] for one in outcomes)
        tokens = torch.cat(
            [functional.pad(one.tokens, (0, longest - one.tokens.shape[1])) for one in outcomes]
        )
        counts = torch.cat([one.counts for one in outcomes])
        drafted = np.repeat([one.nodes - 1 for one in outcomes], [len(one.counts) for one in outcomes])
    return Drawn(_copied(tokens), _copied(counts), drafted)


def _copied(drawn: Tensor) -> npt.NDArray[np.int64]:
    """On the host, out of the next step's way."""
    copy: npt.NDArray[np.int64] = drawn.numpy().copy() if drawn.is_cpu else drawn.cpu().numpy()
    return copy
