"""Which symbol is being spoken in each frame: the frontend's symbols matched to the teacher's phones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from instruments.teacher import Phone

FRAMES_PER_S = 50
_TEACHER_NAMES = {"ah0": "ax"}


def teacher_name(symbol: str) -> str:
    """The teacher's name of a frontend symbol: stress dropped, marks of punctuation as its pause."""
    if not symbol[0].isalpha():
        return "pau"
    lower = symbol.lower()
    return _TEACHER_NAMES.get(lower, lower.rstrip("012"))


def symbol_of_phone(symbols: Sequence[str], phones: Sequence[str]) -> list[int]:
    """Each phone's symbol, as an index; phones without one share their predecessor's. Non-decreasing."""
    owner = [-1] * len(phones)
    for block in Levenshtein.opcodes([teacher_name(symbol) for symbol in symbols], phones):
        if block.tag in ("equal", "replace"):
            for shift in range(block.dest_end - block.dest_start):
                owner[block.dest_start + shift] = block.src_start + shift
    current = 0
    for place, symbol in enumerate(owner):
        current = max(current, symbol)
        owner[place] = current
    return owner


def frame_symbols(symbols: Sequence[str], phones: Sequence[Phone], num_frames: int) -> npt.NDArray[np.int16]:
    """Index of the symbol spoken in each frame [num_frames]; the last symbol after the last phone."""
    owner = symbol_of_phone(symbols, [phone.name for phone in phones])
    ends = np.array([phone.end_s for phone in phones])
    centres = (np.arange(num_frames) + 0.5) / FRAMES_PER_S
    spoken = np.searchsorted(ends, centres, side="right")
    table = np.array([*owner, len(symbols) - 1], dtype=np.int16)
    return table[spoken]
