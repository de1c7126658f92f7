"""Every file of values renders what Kubernetes takes, and so does the base that is made of them."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered import VARIANTS, container_of, of_kind, pod_of

from deploy import manifests as command
from deploy.chart import DEFAULTS, FOLDER, ChartError, Manifest, lint
from deploy.manifests import BASE, DASHBOARD, FOREIGN, RENDERED, base_of, main, validate


def test_helm_finds_nothing_wrong() -> None:
    lint()


def test_every_file_of_values_is_rendered_alone_and_with_the_others() -> None:
    files = {path.name for path in FOLDER.glob("values*.yaml")}
    alone = {f"values-{name}.yaml" for name in VARIANTS if name not in (DEFAULTS, "all")}
    assert alone == files - {"values.yaml"}
    # The proxy speaks plain text with replicas.
    assert {path.name for path in VARIANTS["all"].values} == alone


def test_kubernetes_takes_all_of_it(manifests: list[Manifest]) -> None:
    for manifest in manifests:
        validate(manifest)
    assert len(manifests) >= 5
    assert {one["kind"] for one in manifests if one["apiVersion"] in FOREIGN} <= {
        "ServiceMonitor",
        "PrometheusRule",
    }


@pytest.mark.parametrize(
    ("kind", "field", "value", "told"),
    [
        ("Deployment", "spec.replica", 3, "Deployment talkahead, spec: Additional properties.*'replica'"),
        ("Deployment", "spec.replicas", "3", "Deployment talkahead, spec.replicas: '3'"),
        ("Service", "spec.ports", {"grpc": 8001}, "Service talkahead-grpc, spec.ports: "),
        ("PodDisruptionBudget", "apiVersion", "policy/v9", "PodDisruptionBudget talkahead: Couldn't find"),
    ],
)
def test_what_it_would_not_take_is_told(kind: str, field: str, value: object, told: str) -> None:
    manifest = deepcopy(of_kind(VARIANTS[DEFAULTS].manifests(), kind)[0])
    *path, last = field.split(".")
    part: Any = manifest
    for name in path:
        part = part[name]
    part[last] = value
    with pytest.raises(ChartError, match=told):
        validate(manifest)


def test_settings_of_a_user_reach_the_pods() -> None:
    manifests = VARIANTS[DEFAULTS].manifests(
        image={"repository": "registry.example/talkahead", "tag": "of-today", "pullSecrets": ["key"]},
        server={"threads": {"vocoder": 2}, "modelConfigName": "deterministic", "cpuPath": "avx2"},
        repository={"claim": "models", "subPath": "a"},
        runtimeClassName="nvidia",
        nodeSelector={"pool": "speech"},
        affinity={"nodeAffinity": {}},
        podAnnotations={"a": "b"},
        service={"annotations": {"c": "d"}},
        networkPolicy={"clients": [{"namespaceSelector": {}}], "scrapers": [{"podSelector": {}}]},
    )
    for manifest in manifests:
        validate(manifest)
    pod, container = pod_of(manifests), container_of(manifests)
    assert container["image"] == "registry.example/talkahead:of-today"
    assert pod["imagePullSecrets"] == [{"name": "key"}]
    assert {"--threads=vocoder=2", "--model-config-name=deterministic"} <= set(container["args"])
    assert {"name": "TALKAHEAD_CPU", "value": "avx2"} in container["env"]
    assert container["volumeMounts"][-1] == {
        "name": "repository", "mountPath": "/models", "readOnly": True, "subPath": "a"
    }  # fmt: skip
    assert (pod["runtimeClassName"], pod["nodeSelector"]) == ("nvidia", {"pool": "speech"})
    (policy,) = of_kind(manifests, "NetworkPolicy")
    assert [rule["from"] for rule in policy["spec"]["ingress"]] == [
        [{"namespaceSelector": {}}], [{"podSelector": {}}]
    ]  # fmt: skip


def test_the_base_is_what_the_chart_renders() -> None:
    assert BASE.read_text(encoding="utf-8") == base_of(VARIANTS[DEFAULTS].manifests())
    assert "helm" not in BASE.read_text(encoding="utf-8").lower()


@pytest.mark.needs("kubectl")
def test_kubectl_builds_the_base() -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(BASE.parent)], check=True, capture_output=True, encoding="utf-8"
    )
    objects = list(yaml.safe_load_all(built.stdout))
    assert sorted(objects, key=str) == sorted(yaml.safe_load_all(BASE.read_text("utf-8")), key=str)


def test_the_command_writes_what_it_has_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "RENDERED", tmp_path / RENDERED.name)
    assert main([]) == 0
    written = {path.stem: path for path in (tmp_path / RENDERED.name).iterdir()}
    assert set(written) == set(VARIANTS)
    for name, path in written.items():
        assert path.read_text(encoding="utf-8") == VARIANTS[name].render()
    assert "autoscaled.yaml: 8 objects, of which not validated: ServiceMonitor" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["BASE", "DASHBOARD"])
def test_the_command_refuses_what_was_made_yesterday_and_makes_it_anew(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for made in (BASE, DASHBOARD):
        (tmp_path / made.name).write_bytes(made.read_bytes())
    monkeypatch.setattr(command, "RENDERED", tmp_path)
    monkeypatch.setattr(command, "BASE", tmp_path / BASE.name)
    monkeypatch.setattr(command, "DASHBOARD", tmp_path / DASHBOARD.name)
    (stale := getattr(command, name)).write_text("of yesterday", encoding="utf-8")
    assert main([]) == 1
    told = capsys.readouterr().err
    assert f"{stale.name} is not what is made of its sources: python -m deploy.manifests --write" in told
    assert main(["--write"]) == 0
    assert (tmp_path / BASE.name).read_text("utf-8") == BASE.read_text("utf-8")
    assert (tmp_path / DASHBOARD.name).read_text("utf-8") == DASHBOARD.read_text("utf-8")
