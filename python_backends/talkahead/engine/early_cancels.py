"""Cancels by request id that come before the stream they are for, or after it."""

from __future__ import annotations

from collections import OrderedDict

_REMEMBERED = 4096
_REMEMBERED_S = 10.0


class EarlyCancels:
    """A cancel that meets no stream is kept for the next one of its id, unless one of that id has ended.

    After a stream, a cancel of its request id is taken for late, also where the id is about to be used again:
    who meant the next one reads that nothing was met and asks again, but nobody asks again for a stream that
    was refused by mistake.
    """

    def __init__(self) -> None:
        self._cancelled_at: OrderedDict[str, float] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        """Request ids whose streams are over, the longest ago in front."""

    def add(self, request_id: str, now: float) -> None:
        if request_id not in self._ended:
            self._cancelled_at[request_id] = now

    def take(self, request_id: str, now: float) -> bool:
        """Whether there is one for this id, which has then done its work."""
        while self._cancelled_at and now - next(iter(self._cancelled_at.values())) > _REMEMBERED_S:
            self._cancelled_at.popitem(last=False)
        return self._cancelled_at.pop(request_id, None) is not None

    def stream_opened(self, request_id: str) -> None:
        self._ended.pop(request_id, None)

    def stream_ended(self, request_id: str) -> None:
        if request_id:
            self._ended[request_id] = None
            self._ended.move_to_end(request_id)
            if len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)
