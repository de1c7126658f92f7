"""A recorder of graphs without a device: what it has recorded is done again, on the same tensors."""

from __future__ import annotations

from collections.abc import Callable


class Replayed:
    """As `CudaGraphs`, it has work done some times before the one that it records.

    Attributes:
        replays: of all graphs together.
    """

    def __init__(self) -> None:
        self.replays = 0

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        work()

        def replay() -> None:
            self.replays += 1
            work()

        return replay
