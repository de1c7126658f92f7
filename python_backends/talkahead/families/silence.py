"""What a codec makes of digital silence: pauses between segments are written with it."""

from __future__ import annotations

import numpy as np

from talkahead.families.contracts import Codec


def silent_frame(codec: Codec, samples: int) -> tuple[int, ...]:
    """Codes [C] in the middle of so many samples of silence, far from its edges.

    Raises:
        TalkaheadError: the family's encoder is not here; its codes of silence must then be told.
    """
    frames = codec.encode(np.zeros(samples, np.float32))
    return tuple(frames[len(frames) // 2].tolist())
