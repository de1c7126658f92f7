"""Codes of references, kept for the segments and the streams to come."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class _Voice:
    codes: Codes
    streams: set[int] = field(default_factory=set)
    """Those that go on with it: their later segments carry the key alone."""


class VoiceCache:
    """Codes int32 [F] by key. Beyond `max_bytes`, those go that have not been used for longest.

    A stream pins its voice; pinned voices stay, even where they alone are more than `max_bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._voices: OrderedDict[int, _Voice] = OrderedDict()
        self.num_bytes = 0

    def find(self, key: int) -> Codes | None:
        voice = self._voices.get(key)
        if voice is None:
            return None
        self._voices.move_to_end(key)
        return voice.codes

    def keep(self, key: int, codes: Codes) -> None:
        """A voice that `find` did not know."""
        self._voices[key] = _Voice(codes)
        self.num_bytes += codes.nbytes

    def pin(self, key: int, stream: int) -> None:
        self._voices[key].streams.add(stream)

    def unpin(self, key: int, stream: int) -> None:
        self._voices[key].streams.discard(stream)

    def make_room(self) -> None:
        """Drops voices until the rest fits."""
        if self.num_bytes <= self._max_bytes:
            return
        for key in [key for key, voice in self._voices.items() if not voice.streams]:
            self.num_bytes -= self._voices.pop(key).codes.nbytes
            if self.num_bytes <= self._max_bytes:
                return
