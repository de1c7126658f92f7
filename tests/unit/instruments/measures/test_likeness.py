"""Speech is nearest to the voice that it was made of."""

from __future__ import annotations

import pytest
from taught import CLEAR, NUMBERS, said

from instruments.measures.likeness import Likeness, likeness
from instruments.measures.speaker import SpeakerEncoder


@pytest.mark.needs("flite")
def test_the_nearest_of_two_voices() -> None:
    voices = {voice: said(CLEAR, voice) for voice in ("slt", "kal16")}
    found = likeness(SpeakerEncoder(), said(NUMBERS, "kal16"), voices)
    assert found.nearest == "kal16" and found.cosines["kal16"] > found.cosines["slt"] + 0.2


def test_the_nearest_has_the_largest_cosine() -> None:
    assert Likeness({"a": 0.1, "b": 0.9, "c": 0.5}).nearest == "b"
