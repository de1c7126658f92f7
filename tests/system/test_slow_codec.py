"""A codec that takes ten times as long as its audio: whoever is let in is spoken to the end, late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults import slow_codec
from hearing import hear, speak
from served import Served, served
from shipped import SPEECH
from talkahead_client import Client, ServerBusy, StopReason
from texts import SENTENCES
from waiting import eventually

pytestmark = pytest.mark.slow

STREAMS, TIMES_SLOWER = 6, 10.0
FIRST = SPEECH.frames_covering(220.0)
"""Frames of a window that alone takes longer than a silent vocoder is waited for."""
HELD_BACK = max(SPEECH.lookahead_frames, 1)
"""Frames of the last window: until they are there, the one before them cannot be cut."""
WINDOWS = [FIRST, FIRST, HELD_BACK]
"""Of each stream."""
FRAMES = sum(WINDOWS)
OPTIONS = {
    # Half a frame more, for the allowance is rounded down.
    "max_seconds": (FRAMES + 0.5) / SPEECH.frames_per_s,
    "first_chunk_frames": FIRST,
    "chunk_frames": FIRST,
    "chunk_deadline_s": 90.0,
}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = slow_codec(tmp_path_factory.mktemp("slow"), TIMES_SLOWER)
    with served("--repository", repository, "--exit-timeout", "1") as running:
        yield running


def test_streams_that_come_at_once_are_all_spoken_and_who_comes_later_is_told_the_pace(slow: Served) -> None:
    with Client(slow.grpc) as client:
        speeches = [client.speak(text, seed=seed, **OPTIONS) for seed, text in enumerate(SENTENCES[:STREAMS])]
        firsts = [next(speech) for speech in speeches[:2]]
        with pytest.raises(ServerBusy, match=r"open streams are late already, .* \(min_pace is 0\.1\)"):
            speak(client, SENTENCES[0], **OPTIONS)
        utterances = [hear([first, *speech]) for first, speech in zip(firsts, speeches, strict=False)]
        utterances += [hear(speech) for speech in speeches[2:]]
        for utterance in utterances:
            assert [len(chunk.audio) // SPEECH.hop for chunk in utterance.chunks] == WINDOWS
            assert utterance.stats.stop_reason == StopReason.MAX_SECONDS
        # The launcher's syllable, before it said that the server is ready, was late as well.
        slow.wait_for(r"was late: its listener waited \d+\.\d s in all", count=STREAMS + 1)
        eventually(lambda: slow.metric("talkahead_late_streams_total"), lambda count: count == STREAMS + 1)
        assert speak(client, SENTENCES[0], seed=0, **OPTIONS).stats.frames == FRAMES, "alone, it is spoken"
