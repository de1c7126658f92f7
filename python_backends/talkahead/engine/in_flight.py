"""The windows of one stream that are sent and not acknowledged, and what they tell of its client."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SentWindow:
    """A window in flight: its global sequence, when it left, and how long its audio is."""

    sequence: int
    sent_at: float
    seconds: float


@dataclass(frozen=True)
class Batch:
    """What the vocoder is at work on, as it has told: it says nothing of what is quickly done. Without
    arguments: nothing.

    Args:
        oldest: the lowest sequence in it.
        sent_after: what left later may be handed to the vocoder after its successors.
        heard_at: when the vocoder last began a part of it.
        due_at: by when that part must be done, or the vocoder is held up.
    """

    oldest: float = math.inf
    sent_after: float = math.inf
    heard_at: float = -math.inf
    due_at: float = -math.inf

    def at(self, now: float) -> Batch:
        """Nothing once it is due: then it is done, or held up."""
        return self if now < self.due_at else NO_BATCH

    def comes_to(self, window: SentWindow) -> bool:
        """It is in the batch or after it; otherwise it was passed over."""
        return window.sequence >= self.oldest or window.sent_at > self.sent_after


NO_BATCH = Batch()


class InFlight:
    """Windows by chunk, oldest first."""

    def __init__(self) -> None:
        self._windows: dict[int, SentWindow] = {}
        self._progress_at = -math.inf
        """When the vocoder was last seen at work on windows before our oldest."""
        self._overtaken = 0
        """Later windows of others acknowledged while our oldest was not."""

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def oldest_chunk(self) -> int:
        return next(iter(self._windows))

    @property
    def _oldest(self) -> SentWindow | None:
        return next(iter(self._windows.values()), None)

    def add(self, chunk: int, window: SentWindow) -> None:
        assert chunk not in self._windows
        self._windows[chunk] = window

    def remove(self, chunk: int) -> SentWindow | None:
        """None of a window that is not in flight."""
        return self._windows.pop(chunk, None)

    def acknowledge(self, chunk: int, now: float) -> SentWindow | None:
        """None of a window that is not in flight."""
        window = self.remove(chunk)
        if window is not None:
            self._progress_at, self._overtaken = now, 0
        return window

    def observe(self, sequence: int, now: float) -> None:
        """A window of another stream is acknowledged: ours are yet to come, or were passed over."""
        oldest = self._oldest
        if oldest is None:
            return
        if oldest.sequence > sequence:
            self._progress_at = now
        else:
            self._overtaken += 1

    def heard_at(self, batch: Batch) -> float:
        """When the vocoder was last known to be on its way to the oldest."""
        oldest = self._oldest
        if oldest is None:
            return math.inf
        at = max(oldest.sent_at, self._progress_at)
        return max(at, batch.heard_at) if batch.comes_to(oldest) else at

    def idle_at(self, timeout_s: float, batch: Batch) -> float:
        """When nothing will have become of the oldest for so long, or for as long as its part may take."""
        oldest = self._oldest
        if oldest is None:
            return math.inf
        at = self.heard_at(batch) + timeout_s
        return max(at, batch.due_at) if batch.comes_to(oldest) else at

    def vanished_at(self, overtaken: int, grace_s: float, batch: Batch) -> float:
        """When the oldest, overtaken by so many, will be old enough to say that its client has left."""
        oldest = self._oldest
        if oldest is None or self._overtaken < overtaken or batch.comes_to(oldest):
            return math.inf
        return oldest.sent_at + grace_s
