"""Who may ask, and for how much."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from talkahead_gateway.refusal import Refusal

_MINUTE_S = 60.0


class ApiKeys:
    """The keys that are accepted; none = everybody may ask.

    Args:
        keys: as clients send them.
        streams_per_key: how many utterances may be spoken for one key at once; None = any number.
        characters_per_key: that may be spoken for one key in a minute; None = any number.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        streams_per_key: int | None = None,
        characters_per_key: int | None = None,
    ) -> None:
        # Of hashes, how long a comparison takes tells nothing about the key.
        self._digests = frozenset(map(_digest, keys))
        self._streams_per_key = streams_per_key
        self._open: Counter[bytes] = Counter()
        self._characters_per_key = characters_per_key
        self._allowances: dict[bytes, _Allowance] = {}

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

    @contextmanager
    def characters(self, caller: bytes, count: int) -> Iterator[None]:
        """Counts a text, unless what is done with it fails; raises Refusal where the key has not so many."""
        limit = self._characters_per_key
        if limit is None:
            yield
            return
        if count > limit:
            raise Refusal.of_field("input", f"{count} characters", f"up to {limit} in a minute for this key")
        allowance = self._allowances.setdefault(caller, _Allowance(limit))
        wait_s = allowance.wait_s(count)
        if wait_s:
            message = f"this key has had its {limit} characters of this minute; try again in {wait_s:.1f} s"
            raise Refusal(429, message, code="rate_limit_exceeded", retry_after_s=wait_s)
        allowance.take(count)
        try:
            yield
        except BaseException:
            allowance.take(-count)
            raise


class _Allowance:
    """Characters that a key still has: as many as in a minute at most, which come back evenly in one."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._counted_s = time.monotonic()

    def wait_s(self, count: int) -> float:
        """Until there are so many."""
        now_s = time.monotonic()
        back = (now_s - self._counted_s) / _MINUTE_S * self._per_minute
        self._left = min(self._per_minute, self._left + back)
        self._counted_s = now_s
        return max(0.0, count - self._left) / self._per_minute * _MINUTE_S

    def take(self, count: int) -> None:
        self._left -= count


def authorization(headers: Mapping[str, str]) -> str:
    """As the header of that name has it, or from ElevenLabs' own; "" = neither is there."""
    key = headers.get("xi-api-key")
    return headers.get("authorization", "") if key is None else f"Bearer {key}"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
