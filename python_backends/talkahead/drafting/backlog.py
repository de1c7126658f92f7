"""How far a draft's decoder may be behind, as far as the host knows it without asking the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from talkahead.speculation.rows import Rows


class Backlog:
    """The most positions that each slot may lack in a decoder, up to its root; it may be fewer."""

    def __init__(self, num_slots: int) -> None:
        self._most: npt.NDArray[np.int64] = np.ones(num_slots, dtype=np.int64)

    def admitted(self, slots: Sequence[int]) -> None:
        """Prompts are in the decoder, and nothing but the root is missing."""
        self._most[list(slots)] = 1

    def most(self, rows: Rows) -> int:
        return int(self._most[rows.listed].max())

    def fed(self, rows: Rows, most: int) -> None:
        """The step has brought the decoder up to its roots, and left so many to be fed up to the next."""
        self._most[rows.listed] = most

    def missed(self, rows: Rows, tokens: int, cut: int = 0) -> None:
        """The step left it alone and said up to so many tokens; up to `cut` positions were then dropped that
        lie right before its root."""
        self._most[rows.listed] = np.maximum(self._most[rows.listed], cut) + tokens
