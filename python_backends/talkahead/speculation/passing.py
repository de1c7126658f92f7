"""Which drafted tokens a lenient verifier lets pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passing:
    """Among the draws after their parent, or, where `top_k` is not 0, among its likeliest tokens.

    Args:
        eos: the end of speech, after which nothing is accepted.
        trials: draws after each node.
        eos_top_k: in place of `top_k` for the end of speech.
    """

    eos: int
    trials: int = 1
    top_k: int = 0
    eos_top_k: int = 0
