"""Where the pieces of a served utterance meet."""

from __future__ import annotations

import numpy as np
from talkahead_client import AudioChunk, Stats

from training.served_speech import join


def chunk(samples: int, index: int, char_end: int) -> AudioChunk:
    stats = Stats(1, 1, 0, 0, 0, 0, 1, 0, char_end, 0, 0, 0)
    return AudioChunk(np.full(samples, 0.5, np.float32), index, 24_000, False, stats, 0.0)


def test_joins_within_and_between_segments() -> None:
    chunks = [chunk(320, 0, 0), chunk(640, 1, 9), chunk(320, 2, 9), chunk(640, 3, 20), chunk(320, 4, 31)]
    speech = join(chunks)
    assert len(speech.recording.samples) == 2_240 and speech.recording.rate_hz == 24_000
    assert speech.chunk_joins == (320, 1_280)
    assert speech.segment_joins == (960, 1_920)


def test_one_chunk_has_no_joins() -> None:
    speech = join([chunk(320, 0, 5)])
    assert speech.chunk_joins == speech.segment_joins == ()
