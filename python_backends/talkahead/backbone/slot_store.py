"""What every cache of keys and values does with its slots, however they lie in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class SlotStore(ABC):
    """Slots that hold so many positions each. What lies behind a slot's length is scratch.

    Attributes:
        lengths: int64 [slots], the valid positions of each slot.
    """

    def __init__(self, num_slots: int, device: torch.device) -> None:
        self.lengths = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self._views: dict[tuple[int, int], Tensor] = {}

    def lengths_of(self, slots: slice) -> Tensor:
        """Their part of `lengths`. Kept, as that is only ever written in place."""
        key = slots.start, slots.stop
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self.lengths[slots]
        return view

    @abstractmethod
    def _held(self, slot: int, length: int) -> Tensor:
        """A view of what a slot's first `length` positions hold."""

    def move(self, source: int, target: int) -> None:
        """Slot `target` takes over what `source` holds."""
        length = int(self.lengths[source])
        self._held(target, length).copy_(self._held(source, length))
        self.lengths[target] = length
        self.lengths[source] = 0

    def swap(self, first: int, second: int) -> None:
        length = int(self.lengths[[first, second]].max())
        kept = self._held(first, length).clone()
        self._held(first, length).copy_(self._held(second, length))
        self._held(second, length).copy_(kept)
        self.lengths[[first, second]] = self.lengths[[second, first]]

    def release(self, slot: int) -> None:
        self.lengths[slot] = 0
