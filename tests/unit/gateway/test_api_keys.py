from __future__ import annotations

from types import SimpleNamespace

import pytest
from talkahead_gateway import api_keys
from talkahead_gateway.api_keys import ApiKeys
from talkahead_gateway.refusal import Refusal


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", "Bearer one two", "Basic one", "one", "Bearer \udcff"]
)
def test_a_wrong_key_is_refused(header: str) -> None:
    with pytest.raises(Refusal, match="this key is not accepted") as caught:
        ApiKeys(["one", "two"]).caller_of(header)
    response = caught.value.response()
    assert response.status_code == 401 and response.headers["WWW-Authenticate"] == "Bearer"


def test_each_key_is_a_caller() -> None:
    keys = ApiKeys(["one", "two"])
    assert keys.caller_of("Bearer one") == keys.caller_of("bearer  one ") != keys.caller_of("Bearer two")


def test_without_keys_everybody_may_ask() -> None:
    assert ApiKeys().caller_of("Bearer sk-anything") == ApiKeys().caller_of("")


def test_a_key_has_its_streams_and_gets_them_back() -> None:
    keys = ApiKeys(["one", "two"], streams_per_key=1)
    one, two = keys.caller_of("Bearer one"), keys.caller_of("Bearer two")
    with keys.stream(one), keys.stream(two), pytest.raises(Refusal) as caught, keys.stream(one):
        pass
    assert caught.value.status == 429
    with keys.stream(one):
        pass


def test_a_key_has_its_characters_of_a_minute_and_they_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(api_keys, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    keys = ApiKeys(["one", "two"], characters_per_key=60)
    one, two = keys.caller_of("Bearer one"), keys.caller_of("Bearer two")

    def wait_s(count: int) -> float | None:
        with pytest.raises(Refusal) as caught, keys.characters(one, count):
            pytest.fail("it was let in")
        assert caught.value.status == 429
        return caught.value.retry_after_s

    with keys.characters(one, 40), keys.characters(two, 60), keys.characters(one, 20):
        assert wait_s(6) == pytest.approx(6.0)
    clock.now_s += 5.0
    assert wait_s(6) == pytest.approx(1.0)
    clock.now_s += 1.0
    with keys.characters(one, 6):
        pass
    clock.now_s += 3_600.0
    with keys.characters(one, 60):
        assert wait_s(1) == pytest.approx(1.0)


def test_what_was_not_spoken_does_not_count_and_what_never_fits_is_said() -> None:
    keys = ApiKeys(["one"], characters_per_key=60)
    caller = keys.caller_of("Bearer one")
    with pytest.raises(RuntimeError), keys.characters(caller, 60):
        raise RuntimeError
    with keys.characters(caller, 60):
        pass
    with pytest.raises(Refusal, match="up to 60 in a minute") as caught, keys.characters(caller, 61):
        pass
    assert caught.value.status == 400
