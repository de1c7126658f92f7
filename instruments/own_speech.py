"""What the talker says by itself: the served step, offline, over a pool that is always full.

Shapes: P prompt rows, D hidden size, T tokens of an utterance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import torch
from talkahead.backbone.llama import Llama
from talkahead.backbone.native_decoder import NativeDecoder
from talkahead.config import RequestOptions
from talkahead.drafting.drafter_choice import DraftPool
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.speculation.contracts import Context, Drafter, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree
from talkahead.text import TextFrontend
from torch import Tensor

from instruments.dataset import Dataset
from instruments.material import Sentence

_BATCH = 4_000
"""Padded positions of a batch of prompts."""
_SLOTS = 16
_MAX_FRAMES = 500


@dataclass
class Utterance:
    """One text, spoken.

    Args:
        prompt: [P, D].
        seed: of its draws.
        tokens: int, the end of speech last unless it was cut.
        hidden: [D] each; hidden[t] drew tokens[t]. Only of plain decoding, and not of the last token.
        steps: of the target; the first token comes from the prompt, without a step.
    """

    prompt: Tensor
    seed: int
    tokens: list[int] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)
    steps: int = 0


class RecordingDrafter(NullDrafter):
    """Proposes nothing and remembers the hidden states [S, D] from which the roots were drawn."""

    hidden: Tensor

    def propose(self, context: Context) -> TokenTree:
        self.hidden = context.hidden.clone()
        return super().propose(context)


def read_prompts(encoder_folder: Path, dataset: Dataset, count: int, seed: int) -> list[Tensor]:
    """Prompts [P, D] of `count` texts of a split, or of all when it has fewer."""
    encoder = TextEncoder.load(encoder_folder)
    prompts = (
        encoder.prompt(symbols[:length], int(voice))
        for batch in dataset.batches(_BATCH, seed)
        for symbols, length, voice in zip(batch.symbols, batch.num_symbols, batch.voices, strict=True)
    )
    return list(islice(prompts, count))


def sentence_prompts(encoder: TextEncoder, sentences: Iterable[Sentence]) -> list[Tensor]:
    """Prompts [P, D] of sentences of one segment each, in their voices."""
    frontend, voices = TextFrontend(), encoder.config.voices
    return [
        encoder.prompt(torch.from_numpy(frontend.segments(one.text)[0].symbols), voices.index(one.voice))
        for one in sentences
    ]


def speak(
    decoder: NativeDecoder,
    drafter: Drafter,
    verifier: Verifier,
    prompts: Sequence[Tensor],
    options: RequestOptions,
    seed: int,
    make_step: Callable[[NativeDecoder, Drafter, Verifier], DecodeStep] = DecodeStep,
) -> list[Utterance]:
    """Speaks every prompt, the n-th with seed `seed` + n; a row that ends makes room for the next.

    Args:
        make_step: a step that does more than decode, such as take the time.
    """
    utterances = [Utterance(prompt, seed + index) for index, prompt in enumerate(prompts)]
    step = make_step(decoder, drafter, verifier)
    waiting, running = iter(utterances), dict[int, Utterance]()
    while _admit(step, waiting, running, decoder.num_slots, options) or running:
        drawn = step.run(sorted(running))
        for row, slot in enumerate(drawn.slots.tolist()):
            utterance = running[slot]
            if isinstance(drafter, RecordingDrafter):
                utterance.hidden.append(drafter.hidden[row])
            room = decoder.max_positions - len(utterance.prompt) - len(utterance.tokens)
            tokens = drawn.tokens[row, : drawn.counts[row]].ravel().tolist()[:room]
            if decoder.eos in tokens:
                tokens = tokens[: tokens.index(decoder.eos) + 1]
            utterance.tokens += tokens
            utterance.steps += 1
            if tokens[-1] == decoder.eos or len(tokens) == room:
                del running[slot]
                step.release(slot)
    return utterances


def _admit(
    step: DecodeStep,
    waiting: Iterator[Utterance],
    running: dict[int, Utterance],
    num_slots: int,
    options: RequestOptions,
) -> bool:
    """Fills the free slots; False when nobody came."""
    free = (slot for slot in range(num_slots) if slot not in running)
    admitted = list(zip(free, waiting, strict=False))
    if admitted:
        firsts = step.admit(
            [Admission(slot, one.prompt, options, one.seed, segment=0) for slot, one in admitted]
        )
        for (slot, utterance), first in zip(admitted, firsts, strict=True):
            utterance.tokens += first.tolist()
            running[slot] = utterance
    return bool(admitted)


class OwnSpeech:
    """Texts that the talker speaks by itself, plainly or with a draft.

    Args:
        prompts: [P, D] each.
        seed: the n-th text is spoken with `seed` + n.
    """

    def __init__(self, talker: Llama, prompts: Sequence[Tensor], sampling: RequestOptions, seed: int) -> None:
        self._talker = talker
        self._prompts = prompts
        self._sampling = sampling
        self._seed = seed
        self._positions = max(map(len, prompts)) + _MAX_FRAMES

    @property
    def sampling(self) -> RequestOptions:
        return self._sampling

    @property
    def pool(self) -> DraftPool:
        return DraftPool(_SLOTS, self._positions)

    def plain(self) -> list[Utterance]:
        """With the hidden states that drew the tokens."""
        return self.drafted(RecordingDrafter(), nodes=1)

    def drafted(self, drafter: Drafter, nodes: int, verifier: Verifier | None = None) -> list[Utterance]:
        """By default verified by `match`: what is said stays as it is."""
        decoder = NativeDecoder(
            self._talker.config,
            self._talker.state_dict(),
            num_slots=_SLOTS,
            max_positions=self._positions,
            max_nodes=nodes,
        )
        return speak(decoder, drafter, verifier or MatchVerifier(), self._prompts, self._sampling, self._seed)
