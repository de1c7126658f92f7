"""What one window leaves for the next is kept for its stream, and no longer than it is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talkahead.errors import TalkaheadError
from talkahead.serving.codec_states import LEFT_AFTER_S, CodecStates
from talkahead.types import WindowHeader

FIRST = WindowHeader(
    address=1, stream=5, generation=1, chunk=0, sequence=0, context=0, new=4, lookahead=1, last=0, reason=0
)
SECOND = replace(FIRST, chunk=1, position=4)


def test_a_stream_gets_its_own_and_an_utterance_begins_without() -> None:
    states = CodecStates()
    states.keep(FIRST, "mine")
    states.keep(replace(FIRST, stream=6), "its")
    states.keep(replace(FIRST, generation=2), "later")
    assert states.of(SECOND) == "mine" and states.of(replace(SECOND, stream=6)) == "its"
    assert states.of(replace(SECOND, generation=2)) == "later"
    assert states.of(replace(SECOND, position=0)) is None


@pytest.mark.parametrize("position", [3, 5])
def test_one_of_another_place_is_refused(position: int) -> None:
    states = CodecStates()
    states.keep(FIRST, "mine")
    with pytest.raises(TalkaheadError, match=f"the window before position {position}"):
        states.of(replace(SECOND, position=position))


def test_those_of_ended_and_left_streams_are_forgotten() -> None:
    now = 0.0
    states = CodecStates(lambda: now)
    for stream in range(3):
        states.keep(replace(FIRST, stream=stream), stream)
    states.keep(replace(SECOND, stream=1, last=1), 1)
    assert len(states) == 2
    now = LEFT_AFTER_S / 2
    states.keep(replace(SECOND, stream=2), 2)
    now = LEFT_AFTER_S + 1
    states.keep(replace(FIRST, stream=9), 9)
    assert len(states) == 2 and states.of(replace(SECOND, stream=2, position=8)) == 2
    with pytest.raises(TalkaheadError):
        states.of(replace(SECOND, stream=0))
