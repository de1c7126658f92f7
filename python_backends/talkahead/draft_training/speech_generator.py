"""The talker speaks by itself until there is enough to learn from; goes on where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.config import RequestOptions
from talkahead.draft_training.own_speech import RecordingDrafter, speak
from talkahead.draft_training.reader import Passage, Reader
from talkahead.draft_training.speech_store import SpeechStore
from talkahead.engine.decode_step import DecodeStep
from talkahead.speculation.match_verifier import MatchVerifier

_EVERY = 3
"""Utterances of which one goes on from speech."""
_SHARD = 64
"""Utterances of a shard: a pool is full but for the last few of them."""


@dataclass(frozen=True)
class SpeechGenerator:
    """Utterance n is passage n, the first again after the last; each time round in other voices. Where
    prompts that are served may go on from speech, every third goes on from an utterance of the shard before.

    Args:
        passages: what is spoken, at least one.
        seed: utterance n is drawn with `seed` + n.
    """

    reader: Reader
    passages: Sequence[Passage]
    seed: int

    def prompts(self, first: int, count: int) -> list[Tensor]:
        """[P, D] each."""
        return [self._prompt(number) for number in range(first, first + count)]

    def _prompt(self, number: int) -> Tensor:
        turn, place = divmod(number, len(self.passages))
        return self.reader.prompt(self.passages[place], (place + turn) % len(self.reader.voices))

    def _prompt_beside(self, number: int, store: SpeechStore) -> Tensor:
        """Of an utterance, of which all in the shards before are in the store."""
        before, passages = number - _SHARD, self.passages
        prompt = None
        if self.reader.goes_on and number % _EVERY == 0 <= before:
            own, said = (passages[place % len(passages)] for place in (number, before))
            prompt = self.reader.prompt_after(own, said, store[before].tokens.tolist())
        return self._prompt(number) if prompt is None else prompt

    def fill(
        self,
        store: SpeechStore,
        tokens: int,
        decoder: Backbone,
        sampling: RequestOptions,
        say: Callable[[str], None],
        *,
        keeps_prompts: bool,
    ) -> None:
        """Shard after shard, until so many tokens were said. A shard depends on its number and the one
        before it alone."""
        while store.num_tokens < tokens:
            began, before, first = time.monotonic(), store.num_tokens, store.num_shards * _SHARD
            prompts = [self._prompt_beside(number, store) for number in range(first, first + _SHARD)]
            seed = self.seed + first
            said = speak(
                *(decoder, RecordingDrafter(), MatchVerifier(), prompts, sampling, seed),
                partial(DecodeStep, allowed=self.reader.allowed),
            )
            store.add(said, keeps_prompts=keeps_prompts)
            rate = (store.num_tokens - before) / (time.monotonic() - began)
            say(f"{store.num_tokens:,} of {tokens:,} tokens, {rate:,.0f} a second")
