"""The proxies' health checks are what the server takes for such, and tell in time who is sick."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from talkahead.config import RequestOptions
from talkahead.errors import Code, TalkaheadError, answer_to_check
from talkahead.launcher.health_check import _REFUSALS, SPEECH_MODEL, TEXT, is_well
from tritonclient.grpc import service_pb2

from deploy.chart import FOLDER

HAPROXY = (FOLDER.parents[1] / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")
ENVOY = yaml.safe_load((FOLDER / "files" / "envoy.yaml").read_text(encoding="utf-8"))
KNOWN_WITHIN_S = 5.0
TALKERS_PATIENCE_S = 2.0
"""A talker whose codec hangs answers so much later than its deadline_ms."""


def envoys() -> dict[str, Any]:
    (cluster,) = ENVOY["static_resources"]["clusters"]
    (check,) = cluster["health_checks"]
    return dict(check)


def seconds(duration: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(ms|s)", duration).groups()  # type: ignore[union-attr]
    return float(number) / (1e3 if unit == "ms" else 1)


def asked() -> dict[str, dict[str, Any]]:
    """By proxy."""
    body = re.search(r'body "(.*)"$', HAPROXY, re.MULTILINE)
    assert body is not None
    message = envoys_message()
    assert [one.name for one in message.inputs] == ["TEXT"]
    parameters = {
        name: getattr(one, one.WhichOneof("parameter_choice")) for name, one in message.parameters.items()
    }
    spoken = {"TEXT": message.raw_input_contents[0][4:].decode(), **parameters}
    return {"haproxy": json.loads(body[1].replace('\\"', '"')), "envoy": spoken}


def envoys_message() -> Any:  # noqa: ANN401
    """As gRPC frames it: not compressed, its length, itself."""
    sent = bytes.fromhex(envoys()["http_health_check"]["send"]["text"])
    assert sent[:5] == b"\0" + (len(sent) - 5).to_bytes(4, "big")
    return service_pb2.ModelInferRequest.FromString(sent[5:])


def timing(proxy: str) -> tuple[float, float, float, int]:
    """Seconds that a check may take, to the next one, to that after a failure; how many failures count."""
    if proxy == "envoy":
        check = envoys()
        times = (check["timeout"], check["interval"], check["unhealthy_edge_interval"])
        return *map(seconds, times), check["unhealthy_threshold"]  # type: ignore[return-value]
    limit = re.search(r"timeout check (\S+)", HAPROXY)
    pace = re.search(r" inter (\S+) fastinter (\S+) .* fall (\d) ", HAPROXY)
    assert limit is not None and pace is not None
    return seconds(limit[1]), seconds(pace[1]), seconds(pace[2]), int(pace[3])


@pytest.mark.parametrize("proxy", ["haproxy", "envoy"])
def test_a_proxy_asks_what_a_server_that_leaves_refuses(proxy: str) -> None:
    request = asked()[proxy]
    assert request.pop("TEXT") == TEXT
    assert RequestOptions.from_parameters(request).health_check


@pytest.mark.parametrize("proxy", ["haproxy", "envoy"])
def test_it_knows_in_time_who_hangs_and_hears_who_is_full(proxy: str) -> None:
    limit_s, inter_s, again_s, failures = timing(proxy)
    assert inter_s + failures * limit_s + (failures - 1) * again_s <= KNOWN_WITHIN_S
    answered_s = asked()[proxy]["deadline_ms"] / 1e3
    assert answered_s < limit_s < answered_s + TALKERS_PATIENCE_S


def test_haproxy_takes_the_same_refusals_for_health() -> None:
    expected = re.search(r'http-check expect rstring "(.*)"$', HAPROXY, re.MULTILINE)
    assert expected is not None
    assert set(expected[1].split("|")) - {'IS_LAST\\":true'} == set(_REFUSALS)


def test_envoys_request_can_be_read_in_its_comment() -> None:
    text = (FOLDER / "files" / "envoy.yaml").read_text(encoding="utf-8")
    (comment,) = re.findall(r"^ +# A message of gRPC: (\{.*\})$", text, re.MULTILINE)
    assert json.loads(comment) == asked()["envoy"]


@pytest.mark.parametrize("code", list(Code))
def test_who_is_well_by_the_probe_is_so_by_envoys_word(code: Code) -> None:
    error = answer_to_check(TalkaheadError("no", code))
    assert ("IS_LAST" in str(error)) is is_well(f"{error.code}: {error}")


def test_envoy_asks_the_way_that_clients_take_and_hears_that_it_was_spoken() -> None:
    check = envoys()["http_health_check"]
    assert envoys_message().model_name == SPEECH_MODEL
    assert check["path"] == "/inference.GRPCInferenceService/ModelStreamInfer"
    assert [bytes.fromhex(one["text"]) for one in check["receive"]] == [b"IS_LAST"]
