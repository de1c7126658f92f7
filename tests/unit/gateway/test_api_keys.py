from __future__ import annotations

import pytest
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
