"""One step of all running rows: propose, score, accept, commit, observe; one copy back to the host.

The step is one object so that a CUDA graph per (rows, nodes) can take its place.

Shapes: R slots, S running rows, M accepted nodes at most, C codebooks, F frames of a segment at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.config import RequestOptions
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored, Verifier
from talkahead.speculation.draws import stream_keys
from talkahead.speculation.sampling import SamplingSettings, draw
from talkahead.speculation.token_tree import TokenTree


@dataclass(frozen=True)
class Drawn:
    """What a step added to each running row, on the host.

    Args:
        tokens: int64 [S, M], in order; row s holds counts[s] of them.
        counts: int64 [S], at least 1.
        num_drafted: nodes proposed per row, the root not counted.
    """

    tokens: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    num_drafted: int


@dataclass(frozen=True)
class Admission:
    """One segment that enters a slot: its prompt [P, D], its options and the seed of its draws."""

    slot: int
    prompt: Tensor
    options: RequestOptions
    seed: int
    segment: int


class DecodeStep:
    """Slot-indexed state of decoding, and the loop's body over it."""

    def __init__(self, backbone: Backbone, drafter: Drafter, verifier: Verifier) -> None:
        slots, device = backbone.num_slots, backbone.device
        self._backbone = backbone
        self._drafter = drafter
        self._verifier = verifier
        self._roots = torch.zeros((slots, 1), dtype=torch.int64, device=device)
        self._positions = torch.zeros(slots, dtype=torch.int64, device=device)
        self._hidden = torch.zeros((slots, backbone.hidden_size), dtype=backbone.dtype, device=device)
        self._frames = torch.zeros((slots, backbone.max_positions, 1), dtype=torch.int64, device=device)
        self._keys = torch.zeros(slots, dtype=torch.int64, device=device)
        self._contexts: dict[tuple[int, int], Context] = {}
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
        self._drafter.admit(slots, prompts, lengths)
        return self._draw_first(where, scored)

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
        context = self._context(rows)
        tree = self._drafter.propose(context)
        scored = self._backbone.score(tree, rows)
        accepted = self._verifier.accept(tree, scored, context)
        self._backbone.commit(accepted, tree.shape, rows)
        self._drafter.observe(tree, scored, accepted, context)
        if tree.shape.is_root_alone:
            tokens, hidden = accepted.next_roots, scored.hidden[:, 0]
        else:
            tokens, hidden = _after_path(tree, scored, accepted)
        self._remember(context, tokens)
        context.hidden.copy_(hidden)
        context.roots.copy_(accepted.next_roots)
        context.positions.add_(accepted.counts)
        return Drawn(tokens.cpu().numpy(), accepted.counts.cpu().numpy(), tree.num_nodes - 1)

    def _context(self, rows: slice) -> Context:
        """Views of the state, which stay valid because the state is only ever written in place."""
        context = self._contexts.get((rows.start, rows.stop))
        if context is None:
            context = Context(
                rows=rows,
                roots=self._roots[rows],
                positions=self._positions[rows],
                hidden=self._hidden[rows],
                frames=self._frames[rows],
                keys=self._keys[rows],
                settings=self._settings[rows],
            )
            self._contexts[rows.start, rows.stop] = context
        return context

    def _remember(self, context: Context, tokens: Tensor) -> None:
        """Write what was drawn behind each row's frames; beyond a row's count it is overwritten later."""
        if self._verifier.history_frames == 0:
            return
        behind = context.positions[:, None] + 1 + torch.arange(tokens.shape[1], device=tokens.device)
        behind = behind.clamp_max(self._frames.shape[1] - 1)
        context.frames.scatter_(1, behind[:, :, None], tokens[:, :, None])

    def move(self, source: int, target: int) -> None:
        """Row `target` takes over what `source` holds."""
        self._backbone.move(source, target)
        self._drafter.move(source, target)
        for state in self._states():
            state[target] = state[source]

    def swap(self, first: int, second: int) -> None:
        self._backbone.swap(first, second)
        self._drafter.swap(first, second)
        for state in self._states():
            state[[first, second]] = state[[second, first]]

    def release(self, slot: int) -> None:
        self._backbone.release(slot)
        self._drafter.release(slot)

    def _states(self) -> tuple[Tensor, ...]:
        return (
            self._roots,
            self._positions,
            self._hidden,
            self._frames,
            self._keys,
            *self._settings.columns,
        )


def _after_path(tree: TokenTree, scored: Scored, accepted: Accepted) -> tuple[Tensor, Tensor]:
    """Of a step over more than the root: the tokens [S, M] it added, the hidden state [S, D] at its end."""
    lines = torch.arange(tree.num_rows, device=accepted.path.device)
    last = accepted.counts - 1
    tokens = tree.tokens[lines[:, None], accepted.path, 0].roll(-1, dims=1)
    tokens[lines, last] = accepted.next_roots[:, 0]
    return tokens, scored.hidden[lines, accepted.path[lines, last]]
