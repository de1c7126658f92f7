"""What steps cost on this machine, and what drafting is worth by that, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from talkahead.drafting.acceptance import read_acceptance
from talkahead.drafting.draft_sizes import DraftSizes
from talkahead.drafting.offer import read_offer
from talkahead.engine.draft_forecast import DraftForecast
from talkahead.engine.step_costs import PLAIN_DRAFTER, StepCosts
from talkahead.serving.cost_store import latest_costs
from talkahead.speculation.pairs import PLAIN


def draft_report(talker: Path) -> Iterator[str]:
    """By the last measurement of a server with the talker in a folder; raises ArtifactMismatch."""
    offer, kept = read_offer(talker), latest_costs(talker)
    if kept is None:
        yield "not measured yet; the first start of a server does"
        return
    costs, conditions = kept
    forecast = DraftForecast(costs, read_acceptance(talker, offer.drafters))
    pair = forecast.fastest_pair(PLAIN.verifier, offer.drafters)
    found = "does not pay on this machine" if pair == PLAIN else f"{pair.drafter} pays most on this machine"
    yield f"{found} ({conditions.path}, {conditions.dtype}, {conditions.device})"
    yield from worth_lines(forecast, offer.drafters)
    yield from cost_lines(costs)


def worth_lines(forecast: DraftForecast, sizes: Mapping[str, DraftSizes]) -> Iterator[str]:
    """A line for each drafter: what it brings with `match`, by number of streams."""
    for drafter, own in sizes.items():
        found = forecast.speed_ups(drafter, own).items()
        if found:
            brought = ", ".join(f"{speed:.2f} with {_streams(rows)}" for rows, speed in found)
            yield f"{drafter}, times plain decoding, same tokens: {brought}"


def cost_lines(costs: StepCosts) -> Iterator[str]:
    """A line for each number of streams: a plain step, and drafted ones by drafter and nodes."""
    for rows in costs.rows:
        plain = costs.seconds(PLAIN_DRAFTER, 1, rows)
        drafts = (" ".join((name, *_by_nodes(costs, name, rows, plain))) for name in costs.drafters)
        yield f"{_streams(rows)}: plain {1e3 * plain:.2f} ms; in plain steps, by nodes: {'; '.join(drafts)}"


def _by_nodes(costs: StepCosts, drafter: str, rows: int, plain: float) -> Iterator[str]:
    for one in costs.measured:
        if one.drafter == drafter and one.rows == rows:
            yield f"{one.nodes}: {one.seconds / plain:.2f}"


def _streams(rows: int) -> str:
    return "1 stream" if rows == 1 else f"{rows} streams"
