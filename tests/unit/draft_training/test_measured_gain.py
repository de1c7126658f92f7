"""What is told of a draft: figures of texts spoken by turns, and what the server will do."""

from __future__ import annotations

import pytest
from talkahead.draft_training.gain import Gain, Spoken, verdict
from talkahead.speculation.pairs import PLAIN, Pair


def gain_of(drafted_s: float) -> Gain:
    drafted = [Spoken(100, 50, drafted_s), Spoken(200, 100, 2 * drafted_s)]
    return Gain([Spoken(100, 100, 1.0), Spoken(200, 200, 2.0)], drafted)


def test_speed_is_tokens_a_step_for_what_a_step_costs() -> None:
    gain = gain_of(drafted_s=0.8)
    assert (gain.tokens_per_step, gain.speed_up) == (2.0, pytest.approx(1.25))
    assert gain.step_cost == pytest.approx(1.6)
    assert gain.interval == pytest.approx((1.25, 1.25))


def test_texts_are_spoken_by_turns_and_the_first_of_each_is_not_counted() -> None:
    asked: list[tuple[str, int]] = []

    def speaker(name: str, seconds: float) -> object:
        def speak(number: int) -> Spoken:
            asked.append((name, number))
            return Spoken(10, 10, seconds)

        return speak

    gain = Gain.measure(speaker("plain", 2.0), speaker("drafted", 1.0), 2)  # type: ignore[arg-type]
    turns = [("drafted", 0), ("plain", 0), ("plain", 1), ("drafted", 1)]
    assert asked == [("plain", 0), ("drafted", 0), *turns]
    assert gain.speed_up == 2.0 and len(gain.plain) == len(gain.drafted) == 2


def test_the_verdict_tells_what_the_server_will_do() -> None:
    taken = verdict("heads", 8, gain_of(0.8), Pair("heads", "match"))
    assert taken == (
        "heads+match: 2.00 tokens a step with 8 nodes, 1.25x plain decoding here (1.25 to 1.25; a step costs "
        "1.60 plain ones); the server takes it by default"
    )
    assert verdict("heads", 8, gain_of(1.1), PLAIN).endswith(
        ": that brings nothing here, and the server stays with plain decoding"
    )
    assert "stays with mtp+match" in verdict("heads", 8, gain_of(0.9), Pair("mtp", "match"))


def test_a_server_that_is_told_what_to_take_takes_that() -> None:
    for served, by_itself in ((Pair("heads", "match"), "heads+match"), (PLAIN, "plain decoding")):
        said = verdict("heads", 8, gain_of(0.8), served, told="none")
        assert said.endswith(
            f"config.pbtxt has the server take drafter none by default, where auto would take {by_itself}"
        )
