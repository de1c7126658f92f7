from __future__ import annotations

import pytest
from talkahead.serving.decode_cost import DecodeCost


def test_before_anything_is_measured_a_batch_is_decoded_whole() -> None:
    cost = DecodeCost()
    assert cost.seconds(4, 40) == 0.0
    assert cost.windows_of_a_pass(40, 16) == 16


def test_a_quick_codec_decodes_a_batch_whole() -> None:
    cost = DecodeCost()
    cost.add(4, 40, 0.08)
    assert cost.windows_of_a_pass(40, 16) == 16


@pytest.mark.parametrize(("one_s", "windows"), [(0.1, 5), (0.2, 2), (0.4, 1), (3.0, 1)])
def test_a_slow_codec_says_something_every_half_second_or_after_each_window(
    one_s: float, windows: int
) -> None:
    cost = DecodeCost()
    cost.add(1, 40, one_s)
    assert cost.windows_of_a_pass(40, 16) == windows


def test_what_it_costs_follows_the_machine() -> None:
    cost = DecodeCost()
    for _ in range(100):
        cost.add(1, 40, 0.01)
    assert cost.seconds(2, 40) == pytest.approx(0.02)
    for _ in range(100):
        cost.add(1, 40, 1.0)
    assert cost.seconds(1, 20) == pytest.approx(0.5, rel=0.01)


def test_windows_without_frames_take_no_time() -> None:
    cost = DecodeCost()
    cost.add(1, 0, 0.001)
    assert cost.windows_of_a_pass(0, 16) == 16
