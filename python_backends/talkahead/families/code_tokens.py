"""Tokens that are codes one after another: of each step of a frame its own codebook, then the end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from talkahead.families.contracts import Frames

if TYPE_CHECKING:  # the frontend does without torch
    from talkahead.speculation.allowed_tokens import AllowedTokens


class CodeTokens:
    """A `TokenMap`: step c of a frame draws its code after the codes of all steps before it.

    Shapes: S steps, F frames of C codes.

    Args:
        codebooks: sizes [C], in the order in which a frame is drawn.
        least: tokens that are drawn before the end may be; of frames of one code alone.
    """

    def __init__(self, codebooks: Sequence[int], least: int = 0) -> None:
        assert not least or len(codebooks) == 1
        self._codebooks, self._least = tuple(codebooks), least
        *firsts, self._eos = accumulate(codebooks, initial=0)
        self._firsts = np.array(firsts, np.int64)  # (C,)

    @property
    def eos(self) -> int:
        return self._eos

    @property
    def allowed(self) -> AllowedTokens | None:
        from talkahead.speculation.allowed_by_step import AllowedByStep
        from talkahead.speculation.no_early_end import NoEarlyEnd

        if len(self._codebooks) > 1:
            return AllowedByStep.by_codebook(self._codebooks, self._eos)
        return NoEarlyEnd(self._least, self._eos) if self._least else None

    def frames(self, tokens: npt.NDArray[np.int32]) -> Frames:
        count = len(self._firsts)
        whole = tokens[: len(tokens) // count * count].reshape(-1, count)
        return (whole - self._firsts).astype(np.int32)

    def tokens(self, frames: Frames) -> npt.NDArray[np.int64]:
        return (frames.astype(np.int64) + self._firsts).reshape(-1)
