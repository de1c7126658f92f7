"""Speech is nearest to the voice that it was made of."""

from __future__ import annotations

from taught import CLEAR, NUMBERS, said

from instruments.measures.likeness import Likeness, likeness
from instruments.measures.speaker import SpeakerEncoder


def test_the_nearest_of_two_voices() -> None:
    voices = {voice: said(CLEAR, voice) for voice in ("heart", "deep")}
    found = likeness(SpeakerEncoder(), said(NUMBERS, "deep"), voices)
    assert found.nearest == "deep" and found.cosines["deep"] > found.cosines["heart"] + 0.2


def test_the_nearest_has_the_largest_cosine() -> None:
    assert Likeness({"a": 0.1, "b": 0.9, "c": 0.5}).nearest == "b"
