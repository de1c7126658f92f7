"""Ids to rows of a checkpoint's embedding table, which stays in its file until rows are asked for.

Shapes: T units, P prompt rows, V rows of the table, D width, F frames of C codes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from safetensors import safe_open

from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.added_voices import added_voices
from talkahead.families.code_tokens import CodeTokens
from talkahead.families.contracts import Frames, OwnVoice, Units
from talkahead.families.text_prompt import SPEECH, VOICE

if TYPE_CHECKING:  # the frontend, which reads the voices, does without torch
    from torch import Tensor

WEIGHTS, CONFIG = "encoder.safetensors", "encoder.json"
TABLE = "embed_tokens.weight"


@dataclass(frozen=True)
class NamedVoice:
    """What a request may name, and what stands in a prompt to be spoken like it.

    Args:
        words: ids that call it.
        frames: [F, C], its speech, as a reference's; none where its words are enough.
        said: what it says in them, spelled by nobody yet.
    """

    name: str
    words: tuple[int, ...] = ()
    frames: tuple[tuple[int, ...], ...] = ()
    said: str = ""

    @property
    def offered(self) -> OwnVoice:
        """As all servers know it: something in its prompt tells who speaks, or nothing does."""
        return OwnVoice(self.name, self.said or None, is_fixed=bool(self.words or self.frames))


@dataclass(frozen=True)
class EncoderConfig:
    """What the encoder knows beside its table.

    Args:
        first_speech: the row of the talker's token 0; those of its other codes follow in their order.
        codebooks: sizes [C].
        voices: the first is the default.
    """

    first_speech: int
    codebooks: tuple[int, ...]
    voices: tuple[NamedVoice, ...]

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """With the voices that were added; raises ArtifactMismatch for what cannot be read."""
        path = folder / CONFIG
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            own = tuple(map(_voice, raw["voices"]))
            config = cls(raw["first_speech"], tuple(raw["codebooks"]), own)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactMismatch(
                f"{path} cannot be read ({error!r}); write it with: python -m build_engines import-checkpoint"
            ) from error
        added = [NamedVoice(one.name, (), one.frames, one.said) for one in added_voices(folder)]
        return replace(config, voices=(*own, *added))


def _voice(raw: Mapping[str, Any]) -> NamedVoice:
    """Raises ValueError for one whose words would be put into no prompt, as earlier imports wrote them."""
    frames = tuple(tuple(frame) for frame in raw["frames"])
    said = raw.get("said", "")
    if frames and not said:
        raise ValueError(f"{raw['name']}: speech without what it says")
    return NamedVoice(raw["name"], tuple(raw["words"]), frames, said)


class TableEncoder:
    """The `PromptEncoder` of talkers that read a tokenizer's ids: row by row, so alike in any company."""

    def __init__(self, folder: Path) -> None:
        self._config = EncoderConfig.read(folder)
        self._tokens = CodeTokens(self._config.codebooks)
        with safe_open(folder / WEIGHTS, "pt") as file:
            self._table: Tensor = file.get_tensor(TABLE)  # (V, D), a view of the file
        if self._config.first_speech + self._tokens.eos > len(self._table):
            raise ArtifactMismatch(
                f"{folder / WEIGHTS}: {TABLE} has {len(self._table)} rows; speech needs "
                f"{self._tokens.eos} from {self._config.first_speech} on"
            )

    @property
    def width(self) -> int:
        return self._table.shape[1]

    def prompt(self, units: Units, voice: int, reference: Frames | None) -> Tensor:
        return self._table[self.ids(units, voice, reference)].float()

    def ids(self, units: Units, voice: int, reference: Frames | None) -> list[int]:
        """What a prompt is rows of [P], in the checkpoint's own numbers."""
        ids: list[int] = []
        for unit in units[:, 0].tolist():
            ids.extend(self._in_place_of(unit, voice, reference))
        wrong = [number for number in ids if not 0 <= number < len(self._table)]
        if wrong:
            raise TalkaheadError(f"unit {wrong[0]} is none of this checkpoint's {len(self._table)}")
        return ids

    def _in_place_of(self, unit: int, voice: int, reference: Frames | None) -> Sequence[int]:
        if unit == SPEECH and (spoken := self.spoken(voice, reference)) is not None:
            rows: list[int] = (self._config.first_speech + self._tokens.tokens(spoken)).tolist()
            return rows
        if unit == VOICE and voice < len(self._config.voices):
            return self._config.voices[voice].words
        return [unit]

    def spoken(self, voice: int, reference: Frames | None) -> Frames | None:
        if reference is not None or voice >= len(self._config.voices):
            return reference
        frames = self._config.voices[voice].frames
        return np.array(frames, np.int32).reshape(-1, len(self._config.codebooks))
