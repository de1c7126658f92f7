"""Later segments of a stream go on from what its first one said, where they ask for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from talkahead.engine.decode_step import Admission
from talkahead.errors import TalkaheadError
from talker_fakes import CONFIG, FRAME_LIMIT, SILENCE, Rig, script
from torch import Tensor

VOICE = 3


def rows(tokens: np.ndarray) -> Tensor:
    """Each row tells its token, in a place that scripts do not read."""
    table = torch.zeros(len(tokens), 4)
    table[:, 3] = torch.from_numpy(tokens).float()
    return table


class RecallRig(Rig):
    """Remembers what was admitted, by segment."""

    def __init__(self, num_slots: int = 8) -> None:
        super().__init__(num_slots, replace(CONFIG, rows=rows))
        self.admitted: dict[tuple[int, int], Admission] = {}
        self.order: list[tuple[int, int]] = []
        admit = self.loop._step.admit

        def remember(admissions: list[Admission]) -> np.ndarray:
            for one in admissions:
                key = int(one.prompt[0, 0]), one.segment
                self.admitted[key] = one
                self.order.append(key)
            return admit(admissions)

        self.loop._step.admit = remember  # type: ignore[method-assign]

    def recalled(self, segment: int, voice: int = VOICE) -> list[int]:
        """Tokens after the prompt of a segment, which are its history as well."""
        admission = self.admitted[voice, segment]
        after = [int(token) for token in admission.prompt[3 + segment :, 3]]
        assert admission.history.tolist() == after
        return after


@pytest.mark.parametrize(("recall", "recalled"), [(0, []), (1, [6]), (20, None), (40, None)])
def test_it_stands_behind_the_prompt_the_last_of_it_where_it_is_long(
    recall: int, recalled: list[int] | None
) -> None:
    rig = RecallRig()
    first = rig.submit(VOICE, 23, last=False, pause=5)
    later = [
        rig.submit(VOICE, 11, segment=1, last=False, recall=recall),
        rig.submit(VOICE, 9, segment=2, recall=recall),
    ]
    rig.finish()
    said = script(VOICE, 23)
    assert first.tokens == [*said, *[SILENCE] * 5]
    assert [one.tokens for one in later] == [script(VOICE, 11), script(VOICE, 9)]
    expected = said[-recall:] if recall else []
    assert recalled is None or [token - VOICE * 8 for token in expected] == recalled
    assert rig.recalled(0) == []
    assert [rig.recalled(segment) for segment in (1, 2)] == [expected, expected]
    rig.assert_empty()


def test_it_is_not_admitted_ahead_until_the_first_is_spoken() -> None:
    """Though slots are free; one that goes on from nothing is."""
    rig = RecallRig()
    rig.submit(VOICE, 60, last=False)
    rig.submit(VOICE, 5, segment=1, recall=8)
    rig.submit(VOICE + 1, 60, last=False)
    rig.submit(VOICE + 1, 5, segment=1)
    for _ in range(40):
        rig.loop.turn()
        rig.answer()
    assert (VOICE + 1, 1) in rig.admitted and (VOICE, 1) not in rig.admitted
    rig.finish()
    assert rig.recalled(1) == script(VOICE, 60)[-8:]


def test_it_takes_room_from_the_speech() -> None:
    """A segment that never ends is cut where prompt, opening and speech fill the slot."""
    rig = RecallRig()
    rig.submit(VOICE, 30, last=False)
    later = rig.submit(VOICE, 10 * FRAME_LIMIT, segment=1, recall=30)
    rig.finish()
    assert len(later.tokens) == FRAME_LIMIT + 8 - 4 - 30


def refused(rig: Rig, **asked: int) -> str:
    """The stream's error, which goes to one of its segments."""
    rig.submit(VOICE, 5, **asked)  # type: ignore[arg-type]
    rig.finish()
    (error,) = (one.end for one in rig.outlets if isinstance(one.end, TalkaheadError))
    return str(error)


def test_what_cannot_be_gone_on_from_is_refused() -> None:
    assert "SEGMENT: recall: 3 is not accepted; allowed: a whole number from 0 to 0" in refused(
        RecallRig(), recall=3
    )
    most = FRAME_LIMIT + 8 - 1 - 4
    for recall in (-1, most + 1):
        rig = RecallRig()
        rig.submit(VOICE, 5, last=False)
        assert f"from 0 to {most}" in refused(rig, segment=1, recall=recall)
    rig = Rig()
    rig.submit(VOICE, 5, last=False)
    assert "from 0 to 0" in refused(rig, segment=1, recall=1)
