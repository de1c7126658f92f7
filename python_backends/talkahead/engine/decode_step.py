"""One step of all running rows: propose, score, accept, commit, observe; one copy back to the host.

State and KV lie by slot, and KV stays there. Rows of one method (drafter, verifier, size of the draft) are a
part. Where steps of all parts have been recorded as graphs of a device, they are replayed, one part after the
other; else all parts are scored in one forward.

Shapes: S running rows, M accepted nodes at most, C codebooks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from talkahead.backbone.backbone import Backbone, PartReader
from talkahead.backbone.forward_graphs import GraphRecorder
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.engine.method import Method
from talkahead.engine.native_steps import NativeSteps, ScoreRoom, Stop
from talkahead.engine.slot_state import SlotState
from talkahead.engine.step_graphs import StepGraphs, StepKind, StepOutcome
from talkahead.speculation import native_walk
from talkahead.speculation.allowed_tokens import AllowedTokens
from talkahead.speculation.contracts import Context, Drafter, Scored, Verifier
from talkahead.speculation.history_rules import HistoryRules
from talkahead.speculation.rows import Rows
from talkahead.speculation.sampling import draw, support_of
from talkahead.speculation.token_tree import TokenTree, TreeShape
from talkahead.speculation.walk import walk_of

_METHODS = 64
"""Kept at once, under rules."""
_NATIVE_STEPS = 256
"""Kept at once: of a method, for each number of rows and of nodes."""
_NO_HISTORY = torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Drawn:
    """What a step added to each running row, on the host.

    Args:
        slots: int64 [S], of the rows: those of one method are neighbours.
        tokens: int64 [S, M, C], in order; row s holds counts[s] of them.
        by_step: int64 [K, S], how many each step added to each row, at least 1: one step, or some that were
            taken one after the other.
        num_drafted: int64 [S], nodes that each of them proposed, the root not counted.
    """

    slots: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    by_step: npt.NDArray[np.int64]
    num_drafted: npt.NDArray[np.int64]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """int64 [S], of all steps."""
        counts: npt.NDArray[np.int64] = self.by_step.sum(axis=0)
        return counts


@dataclass(frozen=True)
class Admission:
    """One segment that enters a slot: its prompt [P, D], its options and the seed of its draws.

    Args:
        method: how it is drafted for and verified; None: as the step's own.
        history: int64 [H], the talker's own tokens in the prompt, in order.
        read: hidden states [P, D] of parts of the prompt that `DecodeStep.read` has read, in order.
    """

    slot: int
    prompt: Tensor
    options: RequestOptions
    seed: int
    segment: int
    method: Method | None = None
    history: Tensor = _NO_HISTORY
    read: tuple[Tensor, ...] = ()

    @property
    def num_read(self) -> int:
        """Rows of the prompt."""
        return sum(map(len, self.read))


@dataclass
class _Part:
    """Running rows of one method.

    Args:
        support: see `SlotState.support`.
        state: of the rows side by side, while steps are launched one operation after another, or in native
            calls; replayed ones read and write what lies by slot.
        contexts: by the nodes that are drafted, over one state of steps that are launched.
    """

    method: Method
    rows: Rows
    support: int | None
    state: Context | None = None
    contexts: dict[int | None, Context] = field(default_factory=dict)

    def context(self, nodes: int | None, slots: SlotState) -> Context:
        """Of a step of so many nodes."""
        if self.state is None:
            self.state = slots.taken(self.rows, self.support, looks_back=self.method.looks_back)
        context = self.contexts.get(nodes)
        if context is None:
            # Native code reads and writes plain memory where it lies.
            hidden = self.state.hidden
            scratch: dict[Hashable, Any] | None = (
                {} if hidden.is_cpu and hidden.dtype is torch.float32 else None
            )
            request = self.method.draft_request(nodes)
            context = self.contexts[nodes] = replace(self.state, draft_request=request, scratch=scratch)
        return context

    def enter(self, room: Context, slots: SlotState) -> None:
        """Have the state there."""
        if self.state is not room:
            self.write_back(slots)
            slots.fill(room, self.rows)
            self.state = room

    def write_back(self, slots: SlotState) -> None:
        """Bring what steps have written to the slots."""
        if self.state is not None:
            slots.put(self.state, looks_back=self.method.looks_back)
            self.state = None
            self.contexts.clear()


@dataclass(frozen=True)
class _BatchLayout:
    """The running rows, part by part.

    Args:
        chosen: their slots, as they were asked for.
        slots: int64 [S], in the order of the rows.
    """

    chosen: tuple[int, ...]
    parts: tuple[_Part, ...]
    rows: Rows
    slots: npt.NDArray[np.int64]


class DecodeStep:
    """Slot-indexed state of decoding, and the loop's body over it.

    Args:
        drafter, verifier: of segments that bring no method of their own.
        allowed: what may be drawn at each step of a frame; None: anything.
        clock: seconds, by which methods learn what their steps cost; None: `step_clock`.
        recorder: of the device, by which `record` has whole steps recorded; None: it does nothing. The
            backbone and all drafters have a slot to spare then.

    Attributes:
        graphs: what was recorded, or None.
    """

    def __init__(
        self,
        backbone: Backbone,
        drafter: Drafter,
        verifier: Verifier,
        *,
        allowed: AllowedTokens | None = None,
        clock: Callable[[], float] | None = None,
        recorder: GraphRecorder | None = None,
    ) -> None:
        self._backbone = backbone
        self._clock = clock or step_clock(backbone.device)
        self._default = Method(drafter, verifier)
        self._allowed = allowed
        self._under = lru_cache(_METHODS)(Method.under)
        """Gives rows of one method under the same rules one object, so that they go together."""
        self._methods = [self._default] * backbone.num_slots
        self._layout: _BatchLayout | None = None
        self._state = SlotState(backbone)
        self._room = lru_cache(maxsize=None)(self._state.room)
        self._native_steps = lru_cache(_NATIVE_STEPS)(self._make_native_steps)
        self._in_common: dict[Hashable, Any] = {}
        """What native steps keep, all together."""
        self._scores = ScoreRoom()
        self.graphs: StepGraphs | None = None
        if recorder is not None:
            self.graphs = StepGraphs(recorder, self._step_padded, backbone, self._state.spare)

    def ruled(self, method: Method, options: RequestOptions) -> Method:
        """The method under the rules that the options ask for, and the talker's own."""
        return self._under(method, HistoryRules.of(options, self._allowed))

    def record(
        self, method: Method, options: RequestOptions, sizes: Iterable[int | None], rows: int | None = None
    ) -> None:
        """Have steps of requests with these options recorded, where the device records.

        Args:
            sizes: nodes that are drafted, the most first.
            rows: of the steps; None: any number.
        """
        if self.graphs is None:
            return
        for nodes in sizes:
            support = support_of(options.temperature, options.top_k)
            self.graphs.record(StepKind(self.ruled(method, options), nodes, support), rows)

    @property
    def reads_in_parts(self) -> bool:
        """Whether `read` can."""
        return isinstance(self._backbone, PartReader)

    @torch.inference_mode()
    def read(self, admission: Admission, count: int) -> Admission:
        """The next rows of a prompt, between steps of others; the last ones are for `admit`."""
        assert isinstance(self._backbone, PartReader)
        first = admission.num_read
        scored = self._backbone.read_on(admission.slot, admission.prompt[first : first + count], first)
        return replace(admission, read=(*admission.read, scored.hidden[0]))

    @torch.inference_mode()
    def admit(self, admissions: list[Admission]) -> npt.NDArray[np.int64]:
        """Prefill all of them together and draw each one's first token, int64 [B, C]: never EOS.

        One of which parts were read comes alone.
        """
        self._write_back()
        slots = [admission.slot for admission in admissions]
        lengths = [len(admission.prompt) for admission in admissions]
        prompts = torch.nn.utils.rnn.pad_sequence([one.prompt for one in admissions], batch_first=True)
        where = torch.tensor(slots, device=self._backbone.device)
        self._state.admit(where, admissions)
        for slot, admission in zip(slots, admissions, strict=True):
            self.assign(slot, self.ruled(admission.method or self._default, admission.options))
        drafters = {id(one): one for one in map(self._drafter_of, slots)}.values()
        all_hidden = any(drafter.sees_prompt for drafter in drafters)
        scored = self._prefilled(admissions, prompts, lengths, all_hidden)
        for drafter in drafters:
            own = [line for line, slot in enumerate(slots) if self._drafter_of(slot) is drafter]
            hidden = scored.hidden[own] if drafter.sees_prompt else None
            drafter.admit(
                [slots[line] for line in own], prompts[own], [lengths[line] for line in own], hidden
            )
        if all_hidden:
            last = scored.hidden[range(len(lengths)), [length - 1 for length in lengths]]
            scored = Scored(scored.logits, last[:, None])
        return self._draw_first(slots, where, scored)

    def _prefilled(
        self, admissions: Sequence[Admission], prompts: Tensor, lengths: list[int], all_hidden: bool
    ) -> Scored:
        """As the backbone has it."""
        if not admissions[0].read:
            slots = [admission.slot for admission in admissions]
            return self._backbone.prefill(slots, prompts, lengths, all_hidden=all_hidden)
        [admission] = admissions
        assert isinstance(self._backbone, PartReader)
        rest = self._backbone.read_on(
            admission.slot, admission.prompt[admission.num_read :], admission.num_read
        )
        hidden = torch.cat([*admission.read, rest.hidden[0]])[None] if all_hidden else rest.hidden[:, -1:]
        return Scored(rest.logits, hidden)

    def aligned(self, slot: int, first: int, beyond: int) -> npt.NDArray[np.int32] | None:
        """See `Backbone.aligned`."""
        return self._backbone.aligned(slot, first, beyond)

    def method_of(self, slot: int) -> Method:
        return self._methods[slot]

    def _drafter_of(self, slot: int) -> Drafter:
        return self._methods[slot].drafter

    def assign(self, slot: int, method: Method) -> None:
        """The slot's segment goes on so; without a new prompt, only with the drafter of its admission."""
        if self._methods[slot] is not method:
            self._write_back()
            self._methods[slot] = method

    def _draw_first(self, slots: Sequence[int], where: Tensor, scored: Scored) -> npt.NDArray[np.int64]:
        scored.logits[:, 0, self._backbone.eos] = -torch.inf  # an utterance has at least one frame
        zeros = torch.zeros_like(where)
        scored, ruled = self._ruled_first(slots, scored)
        first = draw(scored.logits, ruled.settings, ruled.keys, zeros[:, None])
        self._state.begin(where, first, scored.hidden[:, 0])
        drawn: npt.NDArray[np.int64] = first.cpu().numpy()
        return drawn

    def _ruled_first(self, slots: Sequence[int], scored: Scored) -> tuple[Scored, Context]:
        """Under the rules of slots whose latest token is the last one in their prompts."""
        before = self._state.before_first(self._rows_of(slots), self._state.support(slots))
        rules = HistoryRules.together(self._methods[slot].rules for slot in slots)
        return rules.apply(TokenTree(before.roots[:, None]), scored, before)

    def _rows_of(self, slots: Sequence[int]) -> Rows:
        return Rows.of(slots, self._backbone.device)

    @torch.inference_mode()
    def run(self, slots: Sequence[int], stop: Stop | None = None) -> Drawn:
        """Decode these slots once. Going on with the slots of the last step costs nothing more.

        Args:
            stop: where all that a step does is native, steps go on until there.
        """
        began = self._clock()
        layout = self._lay_out(tuple(slots))
        sizes = [part.method.nodes_among(len(slots)) for part in layout.parts]
        native = self._native(layout.parts, sizes)
        if native is None:
            outcomes = self._replayed(layout.parts, sizes) or self._launched(layout, sizes)
            drawn, shapes = _on_host(layout.slots, outcomes), [one.shape for one in outcomes]
        else:
            stride, shapes = native.run(stop), [native.shape]
            drafted = _same(len(slots), len(native.shape) - 1)
            drawn = Drawn(layout.slots, stride.tokens, stride.by_step, drafted)
        self._learn(layout.parts, shapes, drawn, began)
        return drawn

    def _lay_out(self, chosen: tuple[int, ...]) -> _BatchLayout:
        """Methods stand in the order in which they are met, and their slots as they were asked for."""
        if self._layout is None or self._layout.chosen != chosen:
            self._write_back()
            by_method: dict[Method, list[int]] = {}
            for slot in chosen:
                by_method.setdefault(self._methods[slot], []).append(slot)
            slots = [slot for own in by_method.values() for slot in own]
            parts = tuple(
                _Part(method, self._rows_of(own), self._state.support(own))
                for method, own in by_method.items()
            )
            rows = parts[0].rows if len(parts) == 1 else self._rows_of(slots)
            self._layout = _BatchLayout(chosen, parts, rows, np.array(slots))
        return self._layout

    def _write_back(self) -> None:
        """Bring what steps have written back to the slots."""
        for part in self._layout.parts if self._layout else ():
            part.write_back(self._state)
        self._layout = None

    # As graphs

    def _replayed(self, parts: Sequence[_Part], sizes: Sequence[int | None]) -> list[StepOutcome]:
        """All parts, one after the other: what each reads once more of the weights costs less than its
        launches. Empty where one of them was not recorded."""
        if self.graphs is None:
            return []
        kinds = [StepKind(part.method, nodes, part.support) for part, nodes in zip(parts, sizes, strict=True)]
        found = [self.graphs.find(kind, part.rows) for kind, part in zip(kinds, parts, strict=True)]
        recorded = [one for one in found if one is not None]
        if len(recorded) < len(found):
            return []
        for part in parts:
            part.write_back(self._state)
        self.graphs.tell()
        if len(parts) == 1:
            return [recorded[0].replay(parts[0].rows)]
        # Methods that do the same have one graph.
        return [one.replay(part.rows).copied() for one, part in zip(recorded, parts, strict=True)]

    def _step_padded(self, kind: StepKind, rows: Rows) -> StepOutcome:
        """What is recorded: a step from the slots and back to them, some of whose rows are the spare slot."""
        state = self._state.taken(rows, kind.support)
        context = replace(state, draft_request=kind.method.draft_request(kind.nodes))
        tree = _draft(kind.method.drafter, context)
        outcome = self._settle(kind.method, tree, self._backbone.score(tree, rows), context)
        self._state.put(state, looks_back=kind.method.looks_back)
        self._state.clear_spare()
        self._backbone.release(self._state.spare)
        kind.method.drafter.release(self._state.spare)
        return outcome

    # In native calls

    def _native(self, parts: Sequence[_Part], sizes: Sequence[int | None]) -> NativeSteps | None:
        """Steps of the rows, brought to where they look at them; None where those are not native."""
        if len(parts) > 1:
            return None
        count = len(parts[0].rows.listed)
        steps = self._native_steps(parts[0].method, sizes[0], count)
        if steps is not None:
            parts[0].enter(self._room(count), self._state)
        return steps

    def _make_native_steps(self, method: Method, nodes: int | None, count: int) -> NativeSteps | None:
        if method.looks_back or not isinstance(self._backbone, NativeDecoder):
            return None
        scratch = dict(self._in_common)
        context = replace(self._room(count), draft_request=method.draft_request(nodes), scratch=scratch)
        steps = NativeSteps.of(method, self._backbone, context, self._scores)
        self._in_common = {key: value for key, value in scratch.items() if key == native_walk.MEMORY}
        return steps

    # One operation after another

    def _launched(self, layout: _BatchLayout, sizes: Sequence[int | None]) -> list[StepOutcome]:
        parts = layout.parts
        contexts = [part.context(nodes, self._state) for part, nodes in zip(parts, sizes, strict=True)]
        trees = [_draft(part.method.drafter, context) for part, context in zip(parts, contexts, strict=True)]
        scored = self._score(trees, layout.rows)
        return [
            self._settle(part.method, *entries)
            for part, entries in zip(parts, zip(trees, scored, contexts, strict=True), strict=True)
        ]

    def _score(self, trees: Sequence[TokenTree], rows: Rows) -> list[Scored]:
        if len(trees) == 1:
            return [self._backbone.score(trees[0], rows)]
        return self._backbone.score_mixed(trees, rows)

    def _settle(self, method: Method, tree: TokenTree, scored: Scored, context: Context) -> StepOutcome:
        """Accept what is right of a part's trees, and bring its rows to their next roots."""
        accepted = method.verifier.accept(tree, *method.rules.apply(tree, scored, context))
        self._backbone.commit(accepted, tree.shape, context.rows)
        method.drafter.observe(tree, scored, accepted, context)
        tokens = walk_of(scored).advance_rows(tree, scored, accepted, context)
        if method.looks_back:
            self._remember(context, tokens, accepted.counts)
        return StepOutcome(tokens, accepted.counts, tree.shape)

    def _learn(self, parts: Sequence[_Part], shapes: Sequence[TreeShape], drawn: Drawn, began: float) -> None:
        """Tell budgets what their trees brought, and what a step cost."""
        steps = len(drawn.by_step)
        first, seconds, total = 0, (self._clock() - began) / steps, int(drawn.counts.sum())
        for part, shape in zip(parts, shapes, strict=True):
            budget, rows = part.method.budget, len(part.rows.listed)
            if budget is not None:
                own = total if len(parts) == 1 else int(drawn.counts[first : first + rows].sum())
                budget.observe_gain(
                    len(shape), own / rows / steps, rows * steps, (total - own) / rows / steps
                )
                budget.observe_cost(len(drawn.slots), len(shape), seconds, steps)
            first += rows

    def _remember(self, context: Context, tokens: Tensor, counts: Tensor) -> None:
        """Write what was drawn after each row's frames; beyond a row's count it is overwritten later."""
        first = context.positions - counts + 1
        after = first[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        assert context.repetition is not None
        last = context.frames.shape[1] - 1 - context.repetition.num_prompt  # after it stand the prompt's
        after = torch.minimum(after, last[:, None])
        context.frames.scatter_(1, after[:, :, None].expand_as(tokens), tokens)

    def release(self, slot: int) -> None:
        self._backbone.release(slot)
        self._drafter_of(slot).release(slot)


def step_clock(device: torch.device) -> Callable[[], float]:
    """By which the costs of steps are compared: seconds of the thread's own, where it does all the work.

    So what else keeps the machine busy does not decide how much is drafted.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.thread_time if alone else time.perf_counter


def _draft(drafter: Drafter, context: Context) -> TokenTree:
    """The drafter's trees, or roots alone where nothing is wanted of it."""
    return context.roots_alone if context.draft_request.nodes == 1 else drafter.propose(context)


@lru_cache(maxsize=256)
def _same(count: int, value: int) -> npt.NDArray[np.int64]:
    """[count], read only."""
    same = np.full(count, value)
    same.flags.writeable = False
    return same


def _on_host(slots: npt.NDArray[np.int64], outcomes: Sequence[StepOutcome]) -> Drawn:
    """All parts' rows in order."""
    tokens, counts = outcomes[0].tokens, outcomes[0].counts
    drafted = _same(len(counts), len(outcomes[0].shape) - 1)
    if len(outcomes) > 1:
        longest = max(one.tokens.shape[1] for one in outcomes)
        tokens = torch.cat(
            [functional.pad(one.tokens, (0, 0, 0, longest - one.tokens.shape[1])) for one in outcomes]
        )
        counts = torch.cat([one.counts for one in outcomes])
        drafted = np.repeat([len(one.shape) - 1 for one in outcomes], [len(one.counts) for one in outcomes])
    return Drawn(slots, *_copied(tokens, counts), drafted)


def _copied(tokens: Tensor, counts: Tensor) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Tokens, and counts [1, S], on the host, out of the next step's way; from a device together, for it is
    waited for once."""
    if tokens.is_cpu:
        return tokens.numpy().copy(), counts[None].numpy().copy()
    both: npt.NDArray[np.int64] = torch.cat([tokens.flatten(1), counts[:, None]], dim=1).cpu().numpy()
    return both[:, :-1].reshape(tokens.shape), both[None, :, -1]
