"""Which tokens may be drawn at each step of a frame, where a talker draws a frame's codes one by one.

Shapes: P steps of a frame, A tokens allowed at a step at most, B rows, N nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor


class AllowedByStep:
    """At position i of a segment only the tokens of step i mod P may be drawn, or the end of speech.

    The end may come at any step, as a checkpoint's own code lets it: forbidden inside a frame, it would be
    another distribution than the one that was learned, and would be waited for with frames that nobody
    meant. The frame that it cuts short is dropped (`TokenMap.frames`). Only the first frame is always whole:
    a segment has at least one.

    Args:
        tokens: of each step.
        eos: the end of speech.
    """

    def __init__(self, tokens: Sequence[Sequence[int]], eos: int) -> None:
        most = max(map(len, tokens)) + 1
        self._period = len(tokens)
        # The first frame, then all others. A token that stands twice is allowed once.
        rows = [[*own, *[own[0]] * (most - len(own))] for own in (*tokens, *([*one, eos] for one in tokens))]
        self._tokens = {torch.device("cpu"): torch.tensor(rows)}  # [2 P, A], by where it is read

    @classmethod
    def by_codebook(cls, sizes: Sequence[int], eos: int) -> Self:
        """Each step draws from a codebook of its own, and these stand one after the other."""
        ends = list(accumulate(sizes))
        return cls([range(end - size, end) for size, end in zip(sizes, ends, strict=True)], eos)

    def apply(self, logits: Tensor, positions: Tensor) -> Tensor:
        """Logits [B, N, V] of the tokens at `positions`, int64 [B, N]; of those not allowed -inf."""
        steps = torch.where(positions < self._period, positions, self._period + positions % self._period)
        tokens = self._on(logits.device)[steps]
        return torch.full_like(logits, -torch.inf).scatter_(2, tokens, logits.gather(2, tokens))

    def _on(self, device: torch.device) -> Tensor:
        """The table, brought there once: a third of a megabyte or more is too much for every draw."""
        if device not in self._tokens:
            self._tokens[device] = self._tokens[torch.device("cpu")].to(device)
        return self._tokens[device]
