"""Names that a request may use. A new method is one more entry here."""

from __future__ import annotations

from collections.abc import Callable

from talkahead.speculation.contracts import Drafter, Verifier
from talkahead.speculation.match_verifier import MatchVerifier
from talkahead.speculation.null_drafter import NullDrafter

DRAFTERS: dict[str, Callable[[], Drafter]] = {"none": NullDrafter}
VERIFIERS: dict[str, Callable[[], Verifier]] = {"match": MatchVerifier}
