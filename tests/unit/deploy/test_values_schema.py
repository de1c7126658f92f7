"""Values that the chart does not know, or cannot mean, are refused with their name and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from rendered import VARIANTS
from talkahead.config import SETTINGS, Real
from talkahead.cpu_path import CpuPath
from talkahead.launcher.log_line import LogLevel

from deploy.chart import DEFAULTS, FOLDER, ChartError

SCHEMA = json.loads((FOLDER / "values.schema.json").read_text(encoding="utf-8"))
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
SUBCHARTS = {"global"}
"""Helm's own, which a chart gets that another one contains."""


def property_of(path: str) -> dict[str, Any]:
    schema: dict[str, Any] = SCHEMA
    for name in path.split("."):
        schema = schema["properties"][name]
    return schema


@dataclass(frozen=True)
class Section:
    """An object whose keys the schema states, with its values."""

    path: str
    schema: dict[str, Any]
    values: dict[str, Any]


def sections(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> Iterator[Section]:
    if "properties" in schema:
        yield Section(path, schema, values)
        for name in values:
            yield from sections(schema["properties"][name], values[name], f"{path}/{name}")


def test_the_schema_knows_the_keys_that_have_values_and_no_others() -> None:
    found = list(sections(SCHEMA, VALUES))
    assert len(found) > 10
    for one in found:
        assert one.schema["additionalProperties"] is False, one.path
        if one.values:  # affinity is Kubernetes' own
            assert set(one.schema["properties"]) - SUBCHARTS == set(one.values), one.path
            assert set(one.schema["required"]) == set(one.values), one.path


def test_it_allows_what_the_server_allows() -> None:
    assert property_of("server.logLevel")["enum"] == [level.name.lower() for level in LogLevel]
    assert property_of("server.cpuPath")["enum"] == ["", *CpuPath]
    longest = SETTINGS["max_seconds"]
    assert isinstance(longest, Real)
    assert property_of("longestUtteranceSeconds")["maximum"] == longest.high


@pytest.mark.parametrize(
    ("section", "value", "told"),
    [
        ("drain", 30, r"additional properties 'drain' not allowed"),
        ("server", {"logLevle": "info"}, r"/server': additional properties 'logLevle' not allowed"),
        ("server", {"logLevel": "loud"}, r"/server/logLevel': value must be one of 'debug', 'info'"),
        ("server", {"threads": {"vocoder": 0}}, r"/server/threads/vocoder': minimum: got 0, want 1"),
        ("server", {"threads": {"a model": 1}}, r"/server/threads': additional properties 'a model'"),
        ("server", {"startTimeoutSeconds": 5}, r"/server/startTimeoutSeconds': minimum: got 5, want 30"),
        ("server", {"startTimeoutSeconds": "5m"}, r"/server/startTimeoutSeconds': got string, want integer"),
        ("server", {"restarts": -1}, r"/server/restarts': minimum: got -1, want 0"),
        ("server", {"restarts": None}, r"/server': missing property 'restarts'"),
        ("server", {"cpuPath": "sse"}, r"/server/cpuPath': value must be one of '', 'generic', 'avx2'"),
        ("longestUtteranceSeconds", 0, r"/longestUtteranceSeconds': minimum: got 0, want 1"),
        ("longestUtteranceSeconds", 3601, r"/longestUtteranceSeconds': maximum: got 3,601, want 3,600"),
        ("longestUtteranceSeconds", 1.5, r"/longestUtteranceSeconds': got number, want integer"),
        ("replicas", 0, r"/replicas': minimum: got 0, want 1"),
        ("replicas", None, r"missing property 'replicas'"),
        ("image", {"pullPolicy": "Often"}, r"/image/pullPolicy': value must be one of 'Always', 'IfNotPres"),
        ("image", {"repository": ""}, r"/image/repository': minLength: got 0, want 1"),
        ("image", {"tag": "a b"}, r"/image/tag': 'a b' does not match pattern"),
        ("repository", {"claim": "Models"}, r"/repository/claim': 'Models' does not match pattern"),
        ("repository", {"claim": "a", "subPath": "/a"}, r"/repository/subPath': '/a' does not match pattern"),
        ("resources", {"limits": {"memory": "much"}}, r"/resources/limits/memory': .*\n?.*'much' does not"),
        ("storage", {"sharedMemory": "256"}, r"/storage/sharedMemory': '256' does not match pattern"),
        ("storage", {"cache": 256}, r"/storage/cache': got number, want string"),
        ("probes", {"timeoutSeconds": 5}, r"/probes/timeoutSeconds': maximum: got 5, want 4"),
        ("traces", {"url": "otel:4317"}, r"/traces/url': 'otel:4317' does not match pattern"),
        ("server", {"logFormat": "xml"}, r"/server/logFormat': value must be one of 'text', 'json'"),
        ("tls", {"secret": "TLS"}, r"/tls/secret': 'TLS' does not match pattern"),
        ("autoscaling", {"openStreams": 0}, r"/autoscaling/openStreams': minimum: got 0, want 1"),
        ("autoscaling", {"enabled": "yes"}, r"/autoscaling/enabled': got string, want boolean"),
        ("serviceMonitor", {"intervalSeconds": 90}, r"/serviceMonitor/intervalSeconds': maximum: got 90"),
        ("disruption", {"maxUnavailable": "half"}, r"/disruption/maxUnavailable': .*\n?.*'half' does not"),
        ("networkPolicy", {"clients": [{"pods": {}}]}, r"/networkPolicy/clients/0': additional properties"),
        ("spreadOver", ["a", "a"], r"/spreadOver': items at 0 and 1 are equal"),
        ("nodeSelector", {"gpu": True}, r"/nodeSelector/gpu': got boolean, want string"),
        ("affinity", {"nodes": {}}, r"/affinity': additional properties 'nodes' not allowed"),
    ],
)
def test_bad_values_are_refused(section: str, value: object, told: str) -> None:
    with pytest.raises(ChartError, match=told):
        VARIANTS[DEFAULTS].render(**{section: value})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"autoscaling": {"minReplicas": 20}},
            "autoscaling.minReplicas: 20 is more than autoscaling.maxReplicas, which is 10",
        ),
        (
            {"rollout": {"maxSurge": "0%", "maxUnavailable": 0}},
            "rollout.maxSurge, rollout.maxUnavailable: both are 0",
        ),
        ({"repository": {"subPath": "llasa"}}, 'repository.subPath: "llasa" is a folder of a claim'),
        (
            {"proxy": {"enabled": True, "tlsSecret": "a"}},
            'proxy.tlsSecret: "a" is for a proxy before replicas that speak TLS',
        ),
        ({"tls": {"clientCertificates": True}}, "tls.clientCertificates: true needs the certificates of a"),
        ({"autoscaling": {"enabled": True}}, "autoscaling.enabled: true needs metrics in Prometheus"),
    ],
)
def test_values_that_do_not_go_together_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ChartError, match=told):
        VARIANTS[DEFAULTS].render(**settings)
