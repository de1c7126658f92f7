"""From what a request chose to the drafter and the verifier that do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from talkahead.config import RequestOptions
from talkahead.drafting.offer import Offer
from talkahead.drafting.selection import Selection, select
from talkahead.engine.draft_budget import DraftBudget
from talkahead.engine.draft_forecast import DraftForecast
from talkahead.engine.method import Method
from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.null_drafter import NullDrafter
from talkahead.speculation.pairs import PLAIN, Pair
from talkahead.speculation.target_tokens import TargetTokens
from talkahead.speculation.verifier_options import VerifierOptions
from talkahead.speculation.verifiers import VERIFIERS

_KEPT = 64
"""Methods that are remembered: options are numbers that clients make up, so there is no end of them."""


class MethodBook:
    """Gives requests that chose the same the same `Method`, so that their rows go together.

    Args:
        drafters: by name, each one object for all slots.
        forecast: what drafts are worth on this machine, which budgets begin with.
    """

    def __init__(
        self,
        offer: Offer,
        drafters: Mapping[str, Drafter],
        target: TargetTokens,
        forecast: DraftForecast | None = None,
    ) -> None:
        self._offer = offer
        self._drafters: Mapping[str, Drafter] = {PLAIN.drafter: NullDrafter(), **drafters}
        self._target = target
        self._forecast = forecast
        assert set(self._drafters) == set(offer.names)
        self._method = lru_cache(_KEPT)(self._make)
        self._verifier = lru_cache(_KEPT)(self._make_verifier)
        self._budget = lru_cache(_KEPT)(self._make_budget)

    @property
    def offer(self) -> Offer:
        return self._offer

    def serving(self, forecast: DraftForecast | None, default: Pair) -> MethodBook:
        """The same, with a forecast, and with the pair of requests that ask for none."""
        return MethodBook(replace(self._offer, default=default), self._drafters, self._target, forecast)

    def of(self, options: RequestOptions) -> Method:
        """Raises BadRequest for what this server does not do."""
        return self._method(select(options, self._offer))

    def usual_nodes(self, method: Method) -> tuple[int | None, ...]:
        """What steps of a request draft that says nothing of it, the most first."""
        if method.pair.drafter == PLAIN.drafter:
            return (method.nodes,)
        return (*reversed(self._offer.drafters[method.pair.drafter].usual), 1)

    def _make(self, chosen: Selection) -> Method:
        pair = chosen.pair
        return Method(
            self._drafters[pair.drafter],
            self._verifier(pair.verifier, chosen.verifier),
            pair,
            chosen.nodes,
            VERIFIERS[pair.verifier].reads_probs,
            None if chosen.is_pinned else self._budget(pair, chosen.verifier),
        )

    def _make_verifier(self, name: str, options: VerifierOptions) -> Verifier:
        return VERIFIERS[name].kind.of(options, self._target)

    def _make_budget(self, pair: Pair, options: VerifierOptions) -> DraftBudget:
        """One for all requests of a pair, however many nodes each allows."""
        forecast = None if self._forecast is None else self._forecast.of(pair.drafter)
        return DraftBudget((1, *self._offer.drafters[pair.drafter].nodes), forecast)
