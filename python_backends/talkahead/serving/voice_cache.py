"""Frames of references, kept for the segments and the streams to come."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from talkahead.families.contracts import Frames

LEFT_AFTER_S = 600.0
"""Without a segment for so long, a stream has ended: of a client that vanished, the rest never gets here."""


@dataclass(frozen=True)
class _Voice:
    frames: Frames
    streams: dict[int, float] = field(default_factory=dict)
    """Those that go on with it (later segments carry the key alone), and when a segment came last."""


class VoiceCache:
    """Frames by key. Beyond `max_bytes`, those go that have not been used for longest.

    A stream pins its voice; pinned voices stay, even where they alone are more than `max_bytes`.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._voices: OrderedDict[int, _Voice] = OrderedDict()
        self.num_bytes = 0

    def find(self, key: int) -> Frames | None:
        voice = self._voices.get(key)
        if voice is None:
            return None
        self._voices.move_to_end(key)
        return voice.frames

    def keep(self, key: int, frames: Frames) -> None:
        """A voice that `find` did not know."""
        self._voices[key] = _Voice(frames)
        self.num_bytes += frames.nbytes

    def pin(self, key: int, stream: int) -> None:
        """A segment of the stream came, and more will."""
        streams = self._voices[key].streams
        streams.pop(stream, None)
        streams[stream] = self._clock()
        self._unpin_left(streams)

    def unpin(self, key: int, stream: int) -> None:
        self._voices[key].streams.pop(stream, None)

    def make_room(self) -> None:
        """Drops voices until the rest fits."""
        if self.num_bytes <= self._max_bytes:
            return
        for key, voice in list(self._voices.items()):
            self._unpin_left(voice.streams)
            if not voice.streams:
                self.num_bytes -= self._voices.pop(key).frames.nbytes
            if self.num_bytes <= self._max_bytes:
                return

    def _unpin_left(self, streams: dict[int, float]) -> None:
        now = self._clock()
        for stream, at in list(streams.items()):
            if now - at <= LEFT_AFTER_S:
                return  # the order is that of `at`
            del streams[stream]
