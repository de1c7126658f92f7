"""What the talker says by itself: the served step, offline, over a pool that is always full.

Shapes: P prompt rows, D hidden size, T tokens of an utterance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from talkahead.backbone.backbone import Backbone
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.backbone.decoder_choice import Precision, load_decoder
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import RequestOptions, parameters_of
from talkahead.drafting.draft_pool import DraftPool
from talkahead.engine.decode_step import Admission, DecodeStep
from talkahead.speculation.allowed_tokens import AllowedTokens
from talkahead.speculation.contracts import Accepted, Context, Drafter, Scored, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.token_tree import TokenTree

SLOTS = 16
_LONGEST = 500


@dataclass(frozen=True)
class Talker:
    """A talker to decode with.

    Args:
        state: weights under their Hugging Face names.
        dtype: of products.
    """

    config: DecoderConfig
    state: Mapping[str, Tensor]
    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    @classmethod
    def of(cls, llama: Llama) -> Self:
        """As precisely as it was trained."""
        return cls(llama.config, llama.state_dict())

    @classmethod
    def serving(cls, folder: Path, device: str = "cpu") -> Self:
        """As precisely as it is served, by the config.pbtxt of the model whose version folder this is;
        without one in bfloat16. Raises ArtifactMismatch."""
        checkpoint = Checkpoint(folder)
        told = parameters_of(folder.parent).get("precision", Precision.BFLOAT16)
        return cls(checkpoint.config, checkpoint, Precision(told).dtype, device)

    def decoder(self, positions: int, nodes: int = 1, slots: int = SLOTS) -> Backbone:
        """For utterances of so many positions, their prompts' among them, and trees of so many nodes."""
        return load_decoder(
            self.config,
            self.state,
            num_slots=slots,
            max_positions=positions,
            max_nodes=nodes,
            dtype=self.dtype,
            device=self.device,
        )


@dataclass
class Utterance:
    """One text, spoken.

    Args:
        prompt: [P, D].
        seed: of its draws.
        tokens: int, the end of speech last unless it was cut.
        hidden: [D] each; hidden[t] drew tokens[t]. Only of plain decoding, and not of the last token.
        last_hidden: [D], drew the last token; likewise.
        steps: of the target; the first token comes from the prompt, without a step.
    """

    prompt: Tensor
    seed: int
    tokens: list[int] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)
    last_hidden: Tensor | None = None
    steps: int = 0


class RecordingDrafter(NullDrafter):
    """Proposes nothing and remembers the hidden states [S, D] from which the roots were drawn, and those from
    which the next ones are."""

    hidden: Tensor
    next_hidden: Tensor

    def propose(self, context: Context) -> TokenTree:
        self.hidden = context.hidden.clone()
        return super().propose(context)

    def observe(self, tree: TokenTree, scored: Scored, accepted: Accepted, context: Context) -> None:
        self.next_hidden = scored.hidden[:, 0].clone()


MakeStep = Callable[[Backbone, Drafter, Verifier], DecodeStep]
"""For steps that do more than decode, such as take the time, or may not draw every token."""


def speak(
    decoder: Backbone,
    drafter: Drafter,
    verifier: Verifier,
    prompts: Sequence[Tensor],
    options: RequestOptions,
    seed: int,
    make_step: MakeStep = DecodeStep,
) -> list[Utterance]:
    """Speaks every prompt, the n-th with seed `seed` + n; a row that ends makes room for the next."""
    utterances = [Utterance(prompt, seed + index) for index, prompt in enumerate(prompts)]
    step = make_step(decoder, drafter, verifier)
    waiting, running = iter(utterances), dict[int, Utterance]()
    while _admit(step, waiting, running, decoder.num_slots, options) or running:
        drawn = step.run(sorted(running))
        for row, slot in enumerate(drawn.slots.tolist()):
            utterance = running[slot]
            if isinstance(drafter, RecordingDrafter):
                utterance.hidden.append(drafter.hidden[row])
                utterance.last_hidden = drafter.next_hidden[row]
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
        allowed: see `DecodeStep`.
    """

    def __init__(
        self,
        talker: Talker,
        prompts: Sequence[Tensor],
        sampling: RequestOptions,
        seed: int,
        allowed: AllowedTokens | None = None,
    ) -> None:
        self._talker = talker
        self._prompts = prompts
        self._sampling = sampling
        self._seed = seed
        self._make_step = partial(DecodeStep, allowed=allowed)
        self._positions = max(map(len, prompts)) + _LONGEST

    @property
    def sampling(self) -> RequestOptions:
        return self._sampling

    @property
    def pool(self) -> DraftPool:
        return DraftPool(SLOTS, self._positions, device=self._talker.device)

    def plain(self) -> list[Utterance]:
        """With the hidden states that drew the tokens."""
        return self.drafted(RecordingDrafter(), nodes=1)

    def drafted(self, drafter: Drafter, nodes: int, verifier: Verifier | None = None) -> list[Utterance]:
        """By default verified by `match`: what is said stays as it is."""
        decoder = self._talker.decoder(self._positions, nodes)
        return speak(
            *(decoder, drafter, verifier or MatchVerifier(), self._prompts, self._sampling, self._seed),
            self._make_step,
        )
