"""What a talker said, kept on disk in shards: each is there whole or not at all.

Shapes: T tokens of an utterance, P rows of its prompt, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from talkahead.draft_training.own_speech import Utterance

_PARTIAL = "shard.partial"


@dataclass(frozen=True)
class _Place:
    """Where an utterance lies in its shard."""

    path: Path
    seed: int
    tokens: slice
    prompt: slice


@dataclass(frozen=True)
class StoredUtterance:
    """What one text became.

    Args:
        prompt: [P, D]; P = 0 where prompts were not kept.
        seed: of its draws.
        tokens: int64 [T], the end of speech last unless it was cut.
        hidden: [T, D]; hidden[t] drew tokens[t].
    """

    prompt: Tensor
    seed: int
    tokens: Tensor
    hidden: Tensor

    @property
    def spoken(self) -> Utterance:
        tokens, *hidden = self.tokens.tolist(), *self.hidden
        return Utterance(self.prompt, self.seed, tokens, hidden[:-1], hidden[-1], len(tokens) - 1)


class SpeechStore:
    """Utterances in a folder, in the order in which they came."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._places: list[_Place] = []
        self.num_shards = 0
        for path in sorted(folder.glob("*.safetensors")):
            self._enter(path)

    @property
    def num_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each utterance."""
        return [one.tokens.stop - one.tokens.start for one in self._places]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> StoredUtterance:
        place = self._places[index]
        with safe_open(place.path, "pt") as file:
            tokens, hidden = (file.get_slice(name)[place.tokens] for name in ("tokens", "hidden"))
            prompt = file.get_slice("prompts")[place.prompt]
        return StoredUtterance(prompt.float(), place.seed, tokens.long(), hidden.float())

    def add(self, utterances: Sequence[Utterance], *, keeps_prompts: bool) -> None:
        """One more shard."""
        prompts = [one.prompt if keeps_prompts else one.prompt[:0] for one in utterances]
        tensors = {
            "seeds": torch.tensor([one.seed for one in utterances]),
            "lengths": torch.tensor([len(one.tokens) for one in utterances]),
            "tokens": torch.tensor([token for one in utterances for token in one.tokens], dtype=torch.int32),
            "hidden": torch.cat([_states(one) for one in utterances]),
            "prompt_lengths": torch.tensor([len(one) for one in prompts]),
            "prompts": torch.cat(prompts).to("cpu", torch.bfloat16),
        }
        path = self._folder / f"{self.num_shards:05}.safetensors"
        save_file(tensors, self._folder / _PARTIAL)
        (self._folder / _PARTIAL).rename(path)
        self._enter(path)

    def _enter(self, path: Path) -> None:
        with safe_open(path, "pt") as file:
            seeds, lengths, prompts = (
                file.get_tensor(name).tolist() for name in ("seeds", "lengths", "prompt_lengths")
            )
        first = row = 0
        for seed, length, rows in zip(seeds, lengths, prompts, strict=True):
            place = _Place(path, seed, slice(first, first + length), slice(row, row + rows))
            self._places.append(place)
            first, row = first + length, row + rows
        self.num_shards += 1


def _states(utterance: Utterance) -> Tensor:
    """bfloat16 [T, D]: as precise as a talker is served."""
    assert utterance.last_hidden is not None
    return torch.stack([*utterance.hidden, utterance.last_hidden]).to("cpu", torch.bfloat16)
