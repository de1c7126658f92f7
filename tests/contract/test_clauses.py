"""What the gateway knows of English text is what the server's own frontend knows."""

from __future__ import annotations

from talkahead.text import frontend
from talkahead.text.abbreviations import ABBREVIATIONS, Stop
from talkahead_gateway import clause_cutter


def test_abbreviations_are_the_servers() -> None:
    numbered = {written for written, found in ABBREVIATIONS.items() if found.stop is Stop.BEFORE_NUMBER}
    assert numbered == clause_cutter.BEFORE_NUMBERS
    assert set(ABBREVIATIONS) - numbered == clause_cutter.ABBREVIATIONS


def test_pauses_are_the_servers() -> None:
    assert clause_cutter.SENTENCE_PAUSE_S == frontend.SENTENCE_PAUSE_S
    assert clause_cutter.CLAUSE_PAUSE_S == frontend.CLAUSE_PAUSE_S
