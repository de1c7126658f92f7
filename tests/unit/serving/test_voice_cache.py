"""Voices stay while a stream needs them, and beyond that as long as there is room."""

from __future__ import annotations

import numpy as np
from talkahead.families.contracts import Frames
from talkahead.serving.voice_cache import LEFT_AFTER_S, VoiceCache

CODES_BYTES = 400


def codes(value: int) -> Frames:
    return np.full((50, 2), value, np.int32)


def fill(cache: VoiceCache, *keys: int) -> None:
    for key in keys:
        cache.keep(key, codes(key))
        cache.make_room()


def known(cache: VoiceCache, *keys: int) -> list[bool]:
    return [cache.find(key) is not None for key in keys]


def test_those_unused_for_longest_make_room() -> None:
    cache = VoiceCache(3 * CODES_BYTES)
    fill(cache, 1, 2, 3)
    assert cache.find(1) is not None
    fill(cache, 4)
    assert known(cache, 1, 2, 3, 4) == [True, False, True, True]
    assert cache.num_bytes == 3 * CODES_BYTES
    np.testing.assert_array_equal(cache.find(4), codes(4))


def test_a_pinned_voice_stays_until_its_last_stream_has_passed() -> None:
    cache = VoiceCache(2 * CODES_BYTES)
    fill(cache, 1)
    cache.pin(1, stream=10)
    cache.pin(1, stream=11)
    cache.pin(1, stream=11)
    fill(cache, 2, 3, 4)
    assert known(cache, 1, 2, 3, 4) == [True, False, False, True]
    cache.unpin(1, stream=10)
    fill(cache, 5, 6)
    assert known(cache, 1) == [True]
    cache.unpin(1, stream=11)
    fill(cache, 7, 8)
    assert known(cache, 1, 7, 8) == [False, True, True]


def test_what_streams_need_may_exceed_the_bound_and_goes_when_it_can() -> None:
    cache = VoiceCache(CODES_BYTES)
    for key in (1, 2, 3):
        fill_pinned(cache, key)
    assert known(cache, 1, 2, 3) == [True] * 3 and cache.num_bytes == 3 * CODES_BYTES
    for key in (1, 2, 3):
        cache.unpin(key, stream=key)
    cache.make_room()
    assert cache.num_bytes == CODES_BYTES


def fill_pinned(cache: VoiceCache, key: int) -> None:
    cache.keep(key, codes(key))
    cache.pin(key, stream=key)
    cache.make_room()


def test_the_voice_of_a_client_that_vanished_is_not_kept_for_ever() -> None:
    now = 0.0
    cache = VoiceCache(CODES_BYTES, clock=lambda: now)
    for key in (1, 2):
        fill_pinned(cache, key)
    now = LEFT_AFTER_S
    cache.pin(2, stream=2)
    now += 1
    fill(cache, 3)
    assert known(cache, 1, 2) == [False, True]
