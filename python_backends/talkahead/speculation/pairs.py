"""A drafter and a verifier, by the names that requests use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """The names of a drafter and a verifier."""

    drafter: str
    verifier: str


PLAIN = Pair("none", "match")
