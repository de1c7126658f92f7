"""An utterance's windows as the talker cuts them, and what a codec speaks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from talkahead.families.contracts import Codec, CodecWindow, Frames, Samples


def cut(frames: Frames, sizes: Sequence[int], context: int, lookahead: int) -> Iterator[CodecWindow]:
    start = 0
    for new in sizes:
        first, stop = max(start - context, 0), start + new
        beyond = min(stop + lookahead, len(frames))
        yield CodecWindow(
            frames[first:beyond].astype(np.int64), start - first, new, beyond - stop, position=start
        )
        start = stop
    assert start == len(frames)


def spoken(codec: Codec, utterances: Sequence[Sequence[CodecWindow]]) -> list[Samples]:
    """Of utterances of as many windows each, decoded side by side."""
    parts: list[list[Samples]] = [[] for _ in utterances]
    states: list[object | None] = [None] * len(utterances)
    for windows in zip(*utterances, strict=True):
        decoded = codec.decode(windows, states)
        states = [one.state for one in decoded]
        for heard, one in zip(parts, decoded, strict=True):
            heard.append(one.audio)
    return [np.concatenate(heard) for heard in parts]
