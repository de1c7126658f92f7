"""The pair of a request that asks for none: `drafter` and `verifier` of the talker's config.pbtxt."""

from __future__ import annotations

from talkahead.config import AUTO, ModelConfig
from talkahead.drafting.offer import Offer
from talkahead.drafting.selection import check_pair
from talkahead.engine.draft_forecast import DraftForecast
from talkahead.errors import BadRequest
from talkahead.speculation.pairs import PLAIN, Pair


def default_pair(config: ModelConfig, offer: Offer, forecast: DraftForecast | None) -> Pair:
    """Raises BadRequest for a pair that makes no sense, or lacks its weights."""
    given = config.parameters.get
    drafter, verifier = given("drafter", PLAIN.drafter), given("verifier", PLAIN.verifier)
    if drafter == AUTO:
        return forecast.fastest_pair(verifier, offer.drafters) if forecast else PLAIN
    check_pair(drafter, verifier)
    if drafter not in offer.names:
        allowed = f"{AUTO}, {', '.join(offer.names)} (no other has weights)"
        raise BadRequest("talker: parameter drafter", drafter, allowed)
    return Pair(drafter, verifier)
