"""The proxy's health check is what the server takes for one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from talkahead.config import RequestOptions
from talkahead.launcher.syllable import _REFUSALS, TEXT

HAPROXY = (Path(__file__).parents[3] / "deploy" / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")


def test_haproxy_asks_what_a_server_that_leaves_refuses() -> None:
    body = re.search(r'body "(.*)"$', HAPROXY, re.MULTILINE)
    assert body is not None
    asked = json.loads(body[1].replace('\\"', '"'))
    assert asked.pop("TEXT") == TEXT
    assert RequestOptions.from_parameters(asked).health_check


def test_haproxy_takes_the_same_refusals_for_health() -> None:
    expected = re.search(r'http-check expect rstring "(.*)"$', HAPROXY, re.MULTILINE)
    assert expected is not None
    assert set(expected[1].split("|")) - {'IS_LAST\\":true'} == set(_REFUSALS)
