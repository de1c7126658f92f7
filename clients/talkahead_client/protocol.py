"""What crosses the wire: models, tensors, request parameters, and the fields of STATS.

A contract test compares this page with the server's `config.pbtxt` files and with `talkahead/types.py`.
Shapes are per item; every model has a batch dimension, so a tensor travels with a leading 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Self

SPEECH_MODEL = "tts"
CONTROL_MODEL = "control"


@dataclass(frozen=True)
class Tensor:
    """A tensor's name, its datatype as KServe's protocol spells it, and its shape (-1 = any length)."""

    name: str
    datatype: str
    shape: tuple[int, ...] = (1,)
    is_optional: bool = False


TEXT = Tensor("TEXT", "BYTES", is_optional=True)
"""Needed, though optional to Triton, which would end a request without it in silence: ours refuses it."""
VOICE = Tensor("VOICE", "BYTES", is_optional=True)
REFERENCE_AUDIO = Tensor("REFERENCE_AUDIO", "FP32", (-1,), is_optional=True)
REFERENCE_TEXT = Tensor("REFERENCE_TEXT", "BYTES", is_optional=True)
SPEECH_INPUTS = (TEXT, VOICE, REFERENCE_AUDIO, REFERENCE_TEXT)

AUDIO = Tensor("AUDIO", "FP32", (-1,))
SAMPLE_RATE = Tensor("SAMPLE_RATE", "INT32")
CHUNK_INDEX = Tensor("CHUNK_INDEX", "INT32")
IS_LAST = Tensor("IS_LAST", "BOOL")
STATS = Tensor("STATS", "INT64", (12,))
WORDS = Tensor("WORDS", "INT32", (-1, 4))
"""Of each word that begins in a chunk: its first character in TEXT and the one after its last, where it
begins in samples of the chunk, and what it is, a `Spoken`."""
SPEECH_OUTPUTS = (AUDIO, SAMPLE_RATE, CHUNK_INDEX, IS_LAST, STATS, WORDS)

COMMAND = Tensor("COMMAND", "BYTES")
STREAM = Tensor("STREAM", "INT64", is_optional=True)
REQUEST_ID = Tensor("REQUEST_ID", "BYTES", is_optional=True)
RESULT = Tensor("RESULT", "BYTES")
CONTROL_INPUTS = (COMMAND, STREAM, REQUEST_ID)
CONTROL_OUTPUTS = (RESULT,)
CONTROL_COMMANDS = ("cancel", "voices", "load")

PARAMETERS: dict[str, type[str] | type[int] | type[float] | type[bool]] = {
    "drafter": str,
    "verifier": str,
    "tolerance": int,
    "top_k_verify": int,
    "eos_top_k": int,
    "bias": float,
    "similarity": float,
    "draft_length": int,
    "nodes": int,
    "pin_draft": bool,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "repetition_penalty": float,
    "ras_win_len": int,
    "ras_win_max_num_repeat": int,
    "seed": int,
    "speed": float,
    "max_seconds": float,
    "first_chunk_frames": int,
    "chunk_frames": int,
    "urgency": int,
    "deadline_ms": int,
    "health_check": bool,
}
"""Request parameters that a server may know, with their types; the server refuses what it does not."""

DRAFTING = (
    "drafter",
    "verifier",
    "tolerance",
    "top_k_verify",
    "eos_top_k",
    "bias",
    "similarity",
    "draft_length",
    "nodes",
    "pin_draft",
)
"""Those that say how speech is drafted ahead."""

ParameterValue = str | int | float | bool


PLAIN: dict[str, ParameterValue] = {"drafter": "none", "verifier": "match"}
"""Nothing is drafted, whatever the server's default."""

DRAFTER_NAMES = ("none", "heads", "mtp", "draft_lm")
VERIFIER_NAMES = ("match", "ratio", "groups", "tolerance", "topk", "biased")
"""By their numbers in STATS."""


class StopReason(IntEnum):
    """Why a stream ended; RUNNING on every chunk but the last."""

    RUNNING = 0
    END_OF_SPEECH = 1
    LENGTH = 2
    MAX_SECONDS = 3
    CANCELLED = 4
    ERROR = 5


class Spoken(IntEnum):
    """What a row of WORDS is about."""

    SEGMENT = 0
    """A sentence, or a part of one, of a talker that does not tell where its words are."""
    WORD = 1
    """A word, as it is written between spaces or marks."""
    PAUSE = 2
    """A mark that a reader stops at; it has no characters where the end of speech alone follows a word."""


@dataclass(frozen=True)
class Stats:
    """STATS: running totals of a stream, on every chunk. The order of the fields is the order on the wire."""

    stream: int
    """The server's id of the stream; `Client.cancel` takes it."""
    seed: int
    """Repeats this speech when given back as the parameter `seed`."""
    frames: int
    """Codec frames spoken so far."""
    target_steps: int
    """Forwards of the talker, whatever it shared them with."""
    drafted: int
    """Tokens that were guessed ahead and checked."""
    accepted: int
    """Those of them that were spoken, the end of speech among them."""
    pool_size: int
    """Streams that the server was speaking when this chunk was cut."""
    stop_reason: int
    """A `StopReason`."""
    char_end: int
    """End of the text spoken so far, in characters of the text that was sent."""
    decode_us: int
    """Microseconds that those forwards took, drafts included; one that served several streams counts whole
    for each."""
    drafter: int
    verifier: int
    """Places in `DRAFTER_NAMES` and `VERIFIER_NAMES`: what was asked for, or what the server chose."""

    @property
    def tokens_per_step(self) -> float:
        """What a target step added to the speech: 1 without a draft."""
        return 1.0 + self.accepted / max(self.target_steps, 1)

    @property
    def decode_us_per_token(self) -> float:
        """What the talker spent on a token; a prompt's own pass, which draws the first, is not counted."""
        return self.decode_us / max(self.target_steps + self.accepted, 1)

    @property
    def pair(self) -> str:
        """The drafter and the verifier, `heads+match`."""
        return f"{_name(DRAFTER_NAMES, self.drafter)}+{_name(VERIFIER_NAMES, self.verifier)}"

    @classmethod
    def from_wire(cls, values: Sequence[int]) -> Self:
        if len(values) != len(STATS_FIELDS):
            raise ValueError(f"STATS has {len(values)} values, expected {len(STATS_FIELDS)}")
        return cls(*(int(value) for value in values))


def _name(names: Sequence[str], number: int) -> str:
    """A newer server may have more of them."""
    return names[number] if 0 <= number < len(names) else f"unknown ({number})"


STATS_FIELDS = tuple(field.name for field in fields(Stats))
