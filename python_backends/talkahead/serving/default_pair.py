"""The pair of a request that asks for none: parameters `drafter` and `verifier` of a model's config.pbtxt."""

from __future__ import annotations

from talkahead.config import ModelConfig
from talkahead.speculation.pairs import PLAIN, Pair


def default_pair(config: ModelConfig) -> Pair:
    """Of the frontend or the talker, which must be told the same. Nothing is checked here."""
    given = config.parameters.get
    return Pair(given("drafter", PLAIN.drafter), given("verifier", PLAIN.verifier))
