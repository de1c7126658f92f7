"""What a talker might have said at each place of stored speech.

Shapes: T tokens of an utterance, D hidden size, K likeliest tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.lesson import Likely


class LikelyTokens:
    """Found when they are first asked for, and kept in memory, 384 bytes a token: every place is learned from
    again and again, by each head, and to ask the talker each time took half of a step.

    Args:
        head: the talker's, onto its vocabulary.
    """

    def __init__(self, head: nn.Linear) -> None:
        self._head = head
        self._found: dict[int, Likely] = {}

    def of(self, number: int, hidden: Tensor) -> Likely:
        """Of utterance `number`, whose tokens were drawn from hidden [T, D]: [T, K] on the CPU."""
        if number not in self._found:
            self._found[number] = self._ask(hidden)
        return self._found[number]

    @torch.no_grad()
    def _ask(self, hidden: Tensor) -> Likely:
        device = self._head.weight.device
        with fast_products(device.type):
            likely = Likely.of(self._head(hidden.to(device)))
        return Likely(likely.tokens.cpu(), likely.odds.to("cpu", torch.float16))
