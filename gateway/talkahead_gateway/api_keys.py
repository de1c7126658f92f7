"""Who may ask, and for how much at once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from talkahead_gateway.refusal import Refusal


class ApiKeys:
    """The keys that are accepted; none = everybody may ask.

    Args:
        keys: as clients send them.
        streams_per_key: how many utterances may be spoken for one key at once; None = any number.
    """

    def __init__(self, keys: Iterable[str] = (), streams_per_key: int | None = None) -> None:
        # Of hashes, how long a comparison takes tells nothing about the key.
        self._digests = frozenset(map(_digest, keys))
        self._streams_per_key = streams_per_key
        self._open: Counter[bytes] = Counter()

    def caller_of(self, authorized_by: str) -> bytes:
        """Whose request it is, by what `authorization` found; raises Refusal for a key that is not known."""
        scheme, _, key = authorized_by.partition(" ")
        caller = _digest(key.strip())
        if not self._digests:
            return b""
        if scheme.lower() != "bearer" or caller not in self._digests:
            raise Refusal(
                401,
                "Authorization: this key is not accepted; allowed: Bearer and a key of this gateway",
                code="invalid_api_key",
            )
        return caller

    @contextmanager
    def stream(self, caller: bytes) -> Iterator[None]:
        """Counts an utterance while it is spoken; raises Refusal where the key has as many as it may."""
        limit = self._streams_per_key
        if limit is not None and self._open[caller] >= limit:
            message = f"this key is being spoken to {limit} times already, which is what it may; wait for one"
            raise Refusal(429, message, code="rate_limit_exceeded")
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1


def authorization(headers: Mapping[str, str]) -> str:
    """As the header of that name has it, or from ElevenLabs' own; "" = neither is there."""
    key = headers.get("xi-api-key")
    return headers.get("authorization", "") if key is None else f"Bearer {key}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
