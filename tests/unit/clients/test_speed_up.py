"""What drafting brings: the arithmetic, the order of the repeats, and the line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from talkahead_client import Stats
from talkahead_client.protocol import DRAFTER_NAMES, PLAIN, STATS_FIELDS, VERIFIER_NAMES
from talkahead_client.speed_up import REPEATS, Parameters, SpeedUp, Spoken, measure_speed_up

NOTHING = Stats(*[0] * len(STATS_FIELDS))
SPEECH = np.linspace(-0.5, 0.5, 320, dtype=np.float32)


def spoken(
    *, steps: int, accepted: int = 0, us: int, drafter: str = "none", verifier: str = "match"
) -> Spoken:
    numbers = DRAFTER_NAMES.index(drafter), VERIFIER_NAMES.index(verifier)
    stats = replace(
        NOTHING,
        seed=9,
        target_steps=steps,
        drafted=3 * steps if drafter != "none" else 0,
        accepted=accepted,
        decode_us=us,
        drafter=numbers[0],
        verifier=numbers[1],
    )
    return Spoken(SPEECH, stats)


PLAINLY = spoken(steps=100, us=50_000)
DRAFTED = spoken(steps=60, accepted=40, us=40_000, drafter="heads")


def test_a_drafter_of_a_newer_server_has_a_name_too() -> None:
    assert replace(NOTHING, drafter=1, verifier=4).pair == "heads+topk"
    assert replace(NOTHING, drafter=9, verifier=-1).pair == "unknown (9)+unknown (-1)"


def test_tokens_and_times_are_medians_over_the_repeats() -> None:
    """Each is compared with the plain one beside it, so that a slow moment harms both alike."""
    slow = [
        replace(one, stats=replace(one.stats, decode_us=3 * one.stats.decode_us))
        for one in (DRAFTED, PLAINLY)
    ]
    odd = spoken(steps=100, accepted=0, us=900_000, drafter="heads")
    speed_up = SpeedUp.of([DRAFTED, slow[0], odd], [PLAINLY, slow[1], PLAINLY], is_default=True)
    assert speed_up.tokens_per_step == pytest.approx(100 / 60)
    assert speed_up.times_plain == pytest.approx(500 / 400)
    assert str(speed_up) == "heads+match: 1.67 tokens a step, 1.25x plain decoding (same tokens)"


def test_other_speech_is_compared_by_the_token() -> None:
    longer = Spoken(
        np.append(SPEECH, SPEECH), spoken(steps=100, accepted=100, us=80_000, drafter="mtp").stats
    )
    speed_up = SpeedUp.of([longer], [PLAINLY], is_default=False)
    assert str(speed_up) == "mtp+match: 2.00 tokens a step, 1.25x plain decoding (other tokens)"


@pytest.mark.parametrize(("error", "is_same"), [(1e-6, True), (1e-3, False)])
def test_rounding_is_no_other_speech(error: float, is_same: bool) -> None:
    near = Spoken(SPEECH + np.float32(error), DRAFTED.stats)
    assert SpeedUp.of([near], [PLAINLY], is_default=False).is_same_speech == is_same


def test_both_kinds_take_turns_with_one_seed() -> None:
    asked: list[Parameters] = []

    def speak(parameters: Parameters) -> Spoken:
        asked.append(parameters)
        return PLAINLY if parameters["drafter"] == "none" else DRAFTED

    given = {"drafter": "heads", "nodes": 8, "temperature": 0.5, "max_seconds": 60.0}
    assert measure_speed_up(speak, given, DRAFTED.stats).times_plain == pytest.approx(1.25)
    common = {"temperature": 0.5, "seed": 9, "max_seconds": 10.0}
    assert asked == [{"drafter": "heads", "nodes": 8, **common}, {**PLAIN, **common}] * REPEATS


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {},
            "none+match, the server's default: plain decoding, 0.50 ms a token; "
            "drafting ahead does not pay there (talkahead doctor)",
        ),
        ({"drafter": "none"}, "none+match: plain decoding, 0.50 ms a token; nothing was drafted ahead"),
    ],
)
def test_nothing_is_compared_where_nothing_was_drafted(given: Parameters, line: str) -> None:
    def speak(parameters: Parameters) -> Spoken:
        raise AssertionError("spoken again")

    assert str(measure_speed_up(speak, given, PLAINLY.stats)) == line
