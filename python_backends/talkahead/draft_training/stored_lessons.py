"""Lessons from what a talker said by itself: no talker is needed any more, only its tables.

Shapes: B utterances, T tokens of the longest, P prompt rows, D hidden size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from talkahead.backbone.llama import Llama
from talkahead.draft_training.lesson import IGNORE, Lesson, Likely
from talkahead.draft_training.likely_tokens import LikelyTokens
from talkahead.draft_training.speech_store import SpeechStore, StoredUtterance

_WINDOW = 64
"""Utterances among which those of a length are put together."""


@dataclass(frozen=True)
class StoredLessons:
    """Batches of stored utterances.

    Args:
        part: of the talker, with its embeddings.
        positions: padded, of a batch of more than one utterance.
        tells_rows: whether prompts are told, as draft models need them.
        likely: of the store, where lessons tell what the talker might have said.
    """

    store: SpeechStore
    part: Llama
    positions: int
    tells_rows: bool
    likely: LikelyTokens | None = None

    def endless(self, seed: int, first: int) -> Iterator[Lesson]:
        """Pass after pass, each in another order, from the `first` batch on: there a run goes on."""
        orders = (batch for turn in count() for batch in self._batches(seed + turn))
        return map(self._lesson, islice(orders, first, None))

    def some(self, number: int) -> list[Lesson]:
        """The first batches of a pass."""
        return list(map(self._lesson, islice(self._batches(0), number)))

    def _batches(self, seed: int) -> list[list[int]]:
        """Every utterance in which something follows, once."""
        chance, lengths = random.Random(seed), self.store.lengths
        order = [one for one, length in enumerate(lengths) if length > 1]
        chance.shuffle(order)
        batches: list[list[int]] = []
        for start in range(0, len(order), _WINDOW):
            batches.append([])
            for one in sorted(order[start : start + _WINDOW], key=lambda one: lengths[one]):
                if batches[-1] and lengths[one] * (len(batches[-1]) + 1) > self.positions:
                    batches.append([])
                batches[-1].append(one)
        chance.shuffle(batches)
        return batches

    def _lesson(self, batch: Sequence[int]) -> Lesson:
        utterances = [self.store[one] for one in batch]
        device = self.part.model.embed_tokens.weight.device
        tokens = pad_sequence([one.tokens for one in utterances], batch_first=True, padding_value=IGNORE)
        hidden = pad_sequence([one.hidden for one in utterances], batch_first=True)
        starts = torch.tensor([len(one.prompt) - 1 for one in utterances], device=device)
        rows = self._rows(utterances, device) if self.tells_rows else hidden[:, :0].to(device)
        likely = self._likely(batch, utterances, device)
        return Lesson(rows, starts, hidden.to(device), tokens.to(device), likely)

    def _likely(
        self, batch: Sequence[int], utterances: Sequence[StoredUtterance], device: torch.device
    ) -> Likely | None:
        if self.likely is None:
            return None
        found = [self.likely.of(number, one.hidden) for number, one in zip(batch, utterances, strict=True)]
        tokens, odds = (
            pad_sequence(list(parts), batch_first=True).to(device)
            for parts in zip(*((one.tokens, one.odds) for one in found), strict=True)
        )
        return Likely(tokens, odds)

    @torch.no_grad()
    def _rows(self, utterances: Sequence[StoredUtterance], device: torch.device) -> Tensor:
        embed = self.part.model.embed_tokens
        joined = [torch.cat([one.prompt.to(device), embed(one.tokens[:-1].to(device))]) for one in utterances]
        return pad_sequence(joined, batch_first=True)
