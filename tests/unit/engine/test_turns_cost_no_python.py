"""A turn in which no stream has anything to do costs the same Python, however many are being spoken."""

from __future__ import annotations

from bytecodes import bytecodes_of
from talker_fakes import Rig

FEW, MANY, FRAMES, TURNS = 2, 32, 90, 60
QUIET_TURNS = 40
"""At least, of those: the others cut windows, or come after one that did."""
PER_STREAM = 2_650
"""Bytecodes, for each, of a turn in which every stream has a window to cut, which is done one by one: 2,599,
and some for what the garbage collector runs in between."""


def turns_of(streams: int) -> list[int]:
    """Bytecodes of each turn, from when all streams speak."""
    rig = Rig(num_slots=MANY, address=0)
    for stream in range(streams):
        rig.submit(stream + 1, FRAMES)
    rig.run(2)
    return [bytecodes_of(rig.loop.turn) for _ in range(TURNS)]


def test_a_quiet_turn_does_nothing_in_python_for_each_stream() -> None:
    few, many = (sorted(turns_of(streams)) for streams in (FEW, MANY))
    assert many[:QUIET_TURNS] == few[:QUIET_TURNS]


def test_a_turn_that_cuts_windows_does_no_more_than_it_says_for_each_stream() -> None:
    few, many = (max(turns_of(streams)) for streams in (FEW, MANY))
    assert few < many < few + PER_STREAM * (MANY - FEW)
