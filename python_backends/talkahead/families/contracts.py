"""What a family of checkpoints is: four parts, each used by one of the Triton models.

Shapes: T units of a segment with U columns each, P prompt rows, D hidden size, S steps (tokens drawn),
F frames of C codes, W frames of a window, N samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt

from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch
from talkahead.speech_format import SpeechFormat
from talkahead.types import WORD_COLUMNS

if TYPE_CHECKING:  # the frontend does without torch
    import torch
    from torch import Tensor

    from talkahead.speculation.allowed_tokens import AllowedTokens

TORCH = "torch"
"""The engine that every network has; with `AUTO` it is the fastest of those that it has on a device."""

Units = npt.NDArray[np.int32]
"""[T, U]: what a family's text becomes: phonemes with their prosody (U = 4), or a tokenizer's ids (U = 1)."""
Frames = npt.NDArray[np.int32]
"""[F, C]"""
Samples = npt.NDArray[np.float32]
"""[N], mono, -1 to 1."""
Words = npt.NDArray[np.int32]
"""[n, 4], as `types.WORD_COLUMNS` says."""
NO_WORDS: Words = np.zeros((0, WORD_COLUMNS), np.int32)


def require_engine(
    engine: str, on_cpu: Sequence[str], device: str, whose: str, elsewhere: Sequence[str] = (TORCH,)
) -> None:
    """Raises ArtifactMismatch for one that a network does not have on a device of a type.

    Args:
        on_cpu, elsewhere: those that it has.
    """
    engines = (AUTO, *(on_cpu if device == "cpu" else elsewhere))
    if engine not in engines:
        raise ArtifactMismatch(
            f"engine: {engine!r} is none of {whose} on {device}; allowed: {', '.join(engines)}"
        )


@dataclass(frozen=True)
class Segment:
    """A part of a text that is spoken at once.

    Args:
        units: int32 [T, U].
        char_start, char_end: the characters of the client's text that it speaks.
        pause_s: silence after it, in seconds; 0 after a text's last.
        words: where in the units each word begins; none where the units do not tell.
        recall: tokens of the text's first segment, its last ones, that stand after the units' prompt at
            most, as its words stand in the units; 0: the prompt is whole.
    """

    units: Units
    char_start: int
    char_end: int
    pause_s: float = 0.0
    words: Words = field(default_factory=lambda: NO_WORDS)
    recall: int = 0


@dataclass(frozen=True)
class OwnVoice:
    """What a request may name.

    Args:
        said: what its stored speech says, which its prompts hold as those of a reference do; None: its
            prompts hold none.
        is_fixed: its prompt tells who speaks. Of another, each prompt would be another speaker's, and so
            later segments go on from what the first one said.
    """

    name: str
    said: str | None = None
    is_fixed: bool = True


class Frontend(Protocol):
    """Text to segments."""

    def segments(self, text: str, said: str | None = None, *, is_fixed: bool = True) -> Iterator[Segment]:
        """Segments as they are asked for; what is refused is refused by this call, before the first one.

        Args:
            said: what is said in the reference, or in the voice's stored speech, which will stand in each
                segment's prompt.
            is_fixed: see `OwnVoice`; a reference fixes any.

        Raises:
            BadRequest: the text, or what is said (field REFERENCE_TEXT), cannot be spoken.
        """

    def units_of(self, said: str) -> int:
        """Rows that a reference's transcript adds to each prompt.

        Raises:
            BadRequest: it cannot be spoken (field REFERENCE_TEXT).
        """


class PromptEncoder(Protocol):
    """Units to what the talker goes on from."""

    @property
    def width(self) -> int:
        """D"""

    def prompt(self, units: Units, voice: int, reference: Frames | None) -> Tensor:
        """The prompt, float32 [P, D]; the same bits in any company.

        Args:
            voice: place among the family's voices; after the last one: the reference's own.
            reference: frames of a recording whose words stand in the units.
        """

    def spoken(self, voice: int, reference: Frames | None) -> Frames | None:
        """The speech that such a prompt goes on from, for rules on history; None for a voice without."""


class TokenMap(Protocol):
    """Between tokens, as the talker draws them, and frames. The talker's vocabulary holds nothing else than
    codes and `eos`: rows of text are cut out of its tables when a checkpoint is imported."""

    @property
    def eos(self) -> int:
        """The end of speech."""

    @property
    def allowed(self) -> AllowedTokens | None:
        """What may be drawn at each position of a segment; None: anything."""

    def frames(self, tokens: npt.NDArray[np.int32]) -> Frames:
        """Frames of tokens [S], which begin a frame; what does not fill a frame is left out."""

    def tokens(self, frames: Frames) -> npt.NDArray[np.int64]:
        """What would have to be drawn for these frames, [S]."""


@dataclass(frozen=True)
class CodecWindow:
    """Frames int64 [W, C] of one utterance: `context`, then `new` ones to make audio of, then `lookahead`.

    Args:
        position: of the first new frame among those of its utterance that are heard; 0 begins one, with the
            unheard ones as its context.
        speed: the utterance's; other than 1 only where the format is elastic.
        voice: the utterance's, by its place among the family's; codecs that make voices heed it.
    """

    frames: npt.NDArray[np.int64]
    context: int
    new: int
    lookahead: int
    position: int
    speed: float = 1.0
    voice: int = 0

    @classmethod
    def whole(cls, frames: npt.NDArray[np.int64], speed: float = 1.0, voice: int = 0) -> Self:
        """All frames [F, C] of an utterance at once."""
        return cls(frames, 0, len(frames), 0, 0, speed, voice)


@dataclass(frozen=True)
class Decoded:
    """Audio [new * hop, by the speed more or less] of a window's new frames, and what the utterance's next
    window needs of this one."""

    audio: Samples
    state: object


class Codec(Protocol):
    """Frames to audio and back."""

    @property
    def precision(self) -> torch.dtype:
        """Of the products of what decodes."""

    def decode(self, windows: Sequence[CodecWindow], states: Sequence[object | None]) -> list[Decoded]:
        """Windows of different utterances, together. The joined audio of an utterance's windows does not
        depend on their neighbours, nor, where the codec is causal, on how it was cut.

        Args:
            states: of each window what the one before it left; None where it begins an utterance.
        """

    def encode(self, audio: Samples) -> Frames:
        """A recording of whole frames at the format's rate.

        Raises:
            TalkaheadError: the family's encoder is not here.
        """


class Family(Protocol):
    """Loads the four parts out of the version folders of a model repository."""

    @property
    def unit_columns(self) -> int:
        """U"""

    def voices(self, encoder: Path) -> tuple[OwnVoice, ...]:
        """Of an encoder's folder, the default first. Empty: references only."""

    def frontend(self, folder: Path, speech: SpeechFormat) -> Frontend: ...

    def prompt_encoder(self, folder: Path, device: torch.device, engine: str = AUTO) -> PromptEncoder:
        """Its network, if it has one, runs by `engine`; `AUTO`: by the one that is fastest on the device.

        Raises:
            ArtifactMismatch: the family has no such engine, or the folder none that fits.
        """

    def token_map(self, speech: SpeechFormat) -> TokenMap: ...

    def codec(self, folder: Path, device: torch.device, engine: str = AUTO) -> Codec:
        """As for the prompt encoder."""
