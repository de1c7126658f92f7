"""Tokens that stand in a prompt, as a reference's do, reach the rules or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from talkahead.config import RequestOptions
from talkahead.engine.decode_step import Admission
from talkahead.engine.emitter import Channel
from talkahead.engine.requests import SegmentRequest
from talkahead.types import SegmentHeader
from talker_fakes import EOS, Outlet, Rig, script

VOICE, FRAMES, PROMPT = 2, 9, 3


class HistoryRig(Rig):
    """Remembers what was admitted."""

    def __init__(self) -> None:
        super().__init__()
        self.admitted: list[Admission] = []
        admit = self.loop._step.admit

        def remember(admissions: list[Admission]) -> np.ndarray:
            self.admitted += admissions
            return admit(admissions)

        self.loop._step.admit = remember  # type: ignore[method-assign]

    def speak(self, history: np.ndarray) -> Outlet:
        prompt = np.zeros((PROMPT, 4), dtype=np.float32)
        prompt[0, :2] = VOICE, FRAMES
        outlet, options = Outlet(), RequestOptions(temperature=0.0, repetition_penalty=1.1)
        request = SegmentRequest(
            SegmentHeader(1, 0, 1, 0, 9, 7), prompt, options, "", outlet, history=history
        )
        self.loop.submit(request, Channel(outlet, lambda job: job(), self._lose, self.logged.append))
        self.finish()
        return outlet


@pytest.mark.parametrize("history", [[], [4], [0, EOS - 1, 4]])
def test_tokens_of_a_prompt_are_admitted_with_it(history: list[int]) -> None:
    rig = HistoryRig()
    assert rig.speak(np.array(history, dtype=np.int64)).tokens == script(VOICE, FRAMES)
    (admission,) = rig.admitted
    assert admission.history.tolist() == history


@pytest.mark.parametrize(
    "history", [[1, 2, 3, 4], [-1], [EOS + 1], [[1, 2]]], ids=["longer", "negative", "no token", "two rows"]
)
def test_tokens_that_cannot_stand_in_a_prompt_are_refused(history: list[int]) -> None:
    rig = HistoryRig()
    outlet = rig.speak(np.array(history, dtype=np.int64))
    assert str(outlet.error).startswith("HISTORY: ")
    assert f"at most {PROMPT} tokens from 0 to {EOS}" in str(outlet.error)
    assert not rig.admitted
    rig.assert_empty()
