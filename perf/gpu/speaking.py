"""Whole steps of a talker, as the server's loop takes them: drafted, scored, drawn, kept, copied to the host.

Random weights have no draft, so it is recalled: what plain decoding said, and wrong as often as is asked for.
What a draft costs to make is not in it then; what it costs to check is. Our voice drafts with its own heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.engine.method import Method
from talkahead.speculation.contracts import Context, Drafter
from talkahead.speculation.draws import uniforms
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree, chain_of
from torch import Tensor

from instruments.environment import REPOSITORY
from perf.gpu.talkers import DeviceTalker, milliseconds
from perf.talker.prompts import text_prompts

OPTIONS = RequestOptions(temperature=0.8, top_p=0.95, top_k=50)
_WARM_UP = 3


@dataclass(frozen=True)
class Spoken:
    """Steps of some streams.

    Args:
        tokens: int64 [rows, T] that each stream said.
        steps_ms: of each step, the first few left out.
    """

    tokens: Tensor
    steps_ms: list[float]

    def tokens_per_s(self, rows: int, steps: int) -> float:
        """Of all streams together, the first few steps left out."""
        counted = self.tokens.shape[1] * rows * len(self.steps_ms) / steps
        return 1e3 * counted / sum(self.steps_ms)


class RecalledDrafter(NullDrafter):
    """Chains of what was said before, each token right with a chance of its own.

    Args:
        said: int64 [slots, T], by position; slots after the last recall as that one does.
        length: tokens of a chain.
        rate: the share of tokens that are right.
    """

    def __init__(self, said: Tensor, length: int, rate: float) -> None:
        self._said, self._rate = said, rate
        self._shape = chain_of(length)
        self._steps = torch.arange(1, length + 1, device=said.device)

    def propose(self, context: Context) -> TokenTree:
        places = (context.positions[:, None] + self._steps) % self._said.shape[1]
        slots = context.rows.slots.clamp_max(len(self._said) - 1)
        tokens = self._said[slots[:, None], places]
        is_wrong = uniforms(context.keys[:, None], places) >= self._rate
        tokens = torch.where(is_wrong, (tokens + 1) % 2, tokens)
        drafted = torch.cat([context.roots_alone.ids, tokens], dim=1)
        return TokenTree(drafted[..., None], self._shape)


def speak(
    talker: DeviceTalker,
    rows: int,
    steps: int,
    drafter: Drafter | None = None,
    prompts: Sequence[Tensor] = (),
    *,
    is_recorded: bool = False,
) -> Spoken:
    """So many steps of so many streams, from their prompts on.

    Args:
        prompts: [P, D] each, the first ones again after the last; none: random ones, as long as the slots'
            cache.
        is_recorded: steps are replayed as graphs, where forwards are.
    """
    method = Method(drafter or NullDrafter(), MatchVerifier(), returns_probs=False)
    recorder = talker.decoder.recorder if is_recorded else None
    step = DecodeStep(talker.decoder, method.drafter, method.verifier, recorder=recorder)
    step.record(method, OPTIONS, [None], rows)
    prompts = prompts or _random_prompts(talker, rows)
    admissions = [
        Admission(slot, prompts[slot % len(prompts)], OPTIONS, seed=slot, segment=0, method=method)
        for slot in range(rows)
    ]
    said: list[list[int]] = [first.tolist() for first in step.admit(admissions)]
    samples: list[float] = []

    def run() -> None:
        drawn = step.run(range(rows))
        for row, slot in enumerate(drawn.slots.tolist()):
            said[slot] += drawn.tokens[row, : drawn.counts[row], 0].tolist()

    for _ in range(steps):
        samples.append(milliseconds(run, talker.device))
    for slot in range(rows):
        step.release(slot)
    shortest = min(map(len, said))
    tokens = torch.from_numpy(np.array([own[:shortest] for own in said])).to(talker.device)
    return Spoken(tokens, samples[_WARM_UP:])


def texts(positions: int) -> Sequence[Tensor]:
    """Prompts [P, D] of our voice, of texts that have room in so many positions."""
    prompts = [torch.from_numpy(prompt) for prompt in text_prompts(REPOSITORY)]
    return [prompt for prompt in prompts if len(prompt) <= positions]


def _random_prompts(talker: DeviceTalker, rows: int) -> Sequence[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (rows, talker.sizes.cache, talker.config.hidden_size)
    return list(torch.randn(shape, generator=generator))
