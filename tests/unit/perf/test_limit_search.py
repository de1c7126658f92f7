"""The search for the rate that is just held."""

from __future__ import annotations

import pytest

from perf.limit_search import LimitSearch


def tried(search: LimitSearch, truth: float, stalls: set[int] = frozenset()) -> list[float]:  # type: ignore[assignment]
    """Rates that were tried until the search ended; those of some places failed for nothing."""
    rates = list[float]()
    while (rate := search.rate) is not None:
        search.add(rate, rate <= truth and len(rates) not in stalls)
        rates.append(rate)
        assert len(rates) < 40
    return rates


@pytest.mark.parametrize("truth", [0.9, 7.0, 8.0, 15.9, 40.0])
@pytest.mark.parametrize("stalls", [frozenset(), {0}, {3}])
def test_the_limit_lies_between_what_is_held_and_what_is_not(truth: float, stalls: set[int]) -> None:
    """Above and below the rates that were asked for, whether or not the machine stalled once."""
    search = LimitSearch()
    for rate in (8.0, 16.0):
        search.add(rate, rate <= truth)
    rates = tried(search, truth, stalls)
    held = max([rate for rate in (8.0, 16.0, *rates) if rate <= truth], default=0.0)
    assert held <= truth < 1.07 * held


def test_a_rate_counts_as_not_held_when_it_failed_twice() -> None:
    search = LimitSearch()
    search.add(8.0, True)
    search.add(10.0, False)
    assert search.rate == 10.0
    search.add(10.0, False)
    assert search.rate == pytest.approx(80.0**0.5)


def test_what_fails_below_a_rate_that_is_held_was_a_stall() -> None:
    search = LimitSearch()
    for is_held in (False, False):
        search.add(8.0, is_held)
    search.add(10.0, True)
    assert search.rate == pytest.approx(12.5)


def test_nothing_is_tried_beyond_the_bounds() -> None:
    assert tried(LimitSearch(), 1.0) == []
    high, low = LimitSearch(highest=20.0), LimitSearch(lowest=4.0)
    high.add(8.0, True)
    low.add(8.0, False)
    assert tried(high, 99.0) == [10.0, 12.5, 15.625, 19.53125]
    assert tried(low, 0.0) == [8.0, 6.4, 6.4, 5.12, 5.12, 4.096, 4.096]
