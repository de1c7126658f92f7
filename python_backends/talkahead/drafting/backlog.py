"""How far a draft's decoder may be behind, as far as the host knows it without asking the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from talkahead.speculation.rows import Rows


class Backlog:
    """The most positions that each slot may lack in a decoder, up to its root; it may be fewer.

    Args:
        usual: what steps with this draft leave at most.
    """

    def __init__(self, num_slots: int, usual: int) -> None:
        self._usual = usual
        self._most: npt.NDArray[np.int64] = np.ones(num_slots, dtype=np.int64)

    def admitted(self, slots: Sequence[int]) -> None:
        """Prompts are in the decoder, and nothing but the root is missing."""
        self._most[list(slots)] = 1

    def most(self, rows: Rows) -> int:
        """Of rows that the host does not know, as a step is recorded for any: the usual."""
        return int(self._most[rows.listed].max()) if len(rows.listed) else self._usual

    def is_usual(self, rows: Rows) -> bool:
        """Whether a step that was recorded feeds enough."""
        return self.most(rows) <= self._usual

    def fed(self, rows: Rows) -> None:
        """The step has brought the decoder up to its roots, and left no more than usual to be fed up to the
        next."""
        self._most[rows.listed] = self._usual

    def missed(self, rows: Rows, tokens: int, cut: int = 0) -> None:
        """The step left it alone and said up to so many tokens; up to `cut` positions were then dropped that
        lie right before its root."""
        self._most[rows.listed] = np.maximum(self._most[rows.listed], cut) + tokens
