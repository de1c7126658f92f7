"""What the chart says of the server is true: durations, ports, probes, metrics, options, places to write."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from exported import Exported, exported
from rendered import (
    PROBES,
    VARIANTS,
    asked_by,
    config_of_the_proxy,
    container_of,
    deployment_of,
    is_of_the_gateway,
    is_of_the_proxy,
    of_kind,
    options_of,
    pod_of,
    selectors_of,
)
from talkahead.cache_places import cache_places
from talkahead.config import parameters_of
from talkahead.launcher.supervisor import _EXIT_MARGIN_S
from talkahead.serving.talker_server import CPU_ROWS
from talkahead_gateway.command import read_options

from deploy.chart import DEFAULTS, FOLDER, ChartError, Manifest

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def is_of_replicas(manifest: Manifest) -> bool:
    return not (is_of_the_proxy(manifest) or is_of_the_gateway(manifest))


@pytest.fixture(scope="module")
def page() -> Exported:
    return exported()


@pytest.mark.parametrize("longest", [1, 120, 3600])
def test_a_pod_waits_for_its_server_and_that_for_the_longest_utterance(longest: int) -> None:
    manifests = VARIANTS[DEFAULTS].manifests(longestUtteranceSeconds=longest)
    options = options_of(manifests)
    command, delay = container_of(manifests)["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep" and int(delay) > 0
    ending = int(delay) + options.drain_timeout + options.exit_timeout + _EXIT_MARGIN_S
    assert pod_of(manifests)["terminationGracePeriodSeconds"] > ending > options.drain_timeout > longest


def test_a_pod_is_taken_away_after_the_last_one_has_drained(autoscaled: list[Manifest]) -> None:
    (autoscaler,) = of_kind(autoscaled, "HorizontalPodAutoscaler")
    (policy,) = autoscaler["spec"]["behavior"]["scaleDown"]["policies"]
    assert policy["value"] == 1
    assert policy["periodSeconds"] >= pod_of(autoscaled)["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("timeout", [30, 900, 3600])
def test_a_start_may_take_its_time_before_kubernetes_ends_it(timeout: int) -> None:
    manifests = VARIANTS[DEFAULTS].manifests(server={"startTimeoutSeconds": timeout})
    assert options_of(manifests).start_timeout == timeout
    for name in ("startupProbe", "livenessProbe"):
        probe = container_of(manifests)[name]
        assert probe["periodSeconds"] * probe["failureThreshold"] > timeout


def test_options_are_those_of_the_server(manifests: list[Manifest]) -> None:
    container = container_of(manifests)
    options = options_of(manifests)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    opened = {"grpc": options.grpc_port, "metrics": options.metrics_port}
    assert ports == (opened if options.tls_key else opened | {"http": options.http_port})
    assert options.host == "0.0.0.0"
    assert f"COPY model_repository {options.repository}\n" in DOCKERFILE


def test_ports_are_named_as_the_container_names_them(manifests: list[Manifest]) -> None:
    ports = {port["name"]: port["containerPort"] for port in container_of(manifests)["ports"]}
    services = [one for one in of_kind(manifests, "Service") if is_of_replicas(one)]
    served = [port for one in services for port in one["spec"]["ports"]]
    assert {port["targetPort"]: port["port"] for port in served} == ports
    (policy,) = of_kind(manifests, "NetworkPolicy")
    let_in = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert sorted(let_in) == sorted(ports)


def test_every_object_is_about_the_pods(manifests: list[Manifest]) -> None:
    labels = deployment_of(manifests)["spec"]["template"]["metadata"]["labels"].items()
    selectors = [selector for one in manifests if is_of_replicas(one) for selector in selectors_of(one)]
    assert len(selectors) == 5
    assert all(selector and selector.items() <= labels for selector in selectors)


def test_prometheus_finds_the_metrics_once(autoscaled: list[Manifest]) -> None:
    (monitor,) = of_kind(autoscaled, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = [one for one in of_kind(autoscaled, "Service") if wanted <= one["metadata"]["labels"].items()]
    assert len(found) == 1
    names = {port["name"] for port in found[0]["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= names


def test_the_autoscaler_goes_by_gauges_that_the_talker_has(
    autoscaled: list[Manifest], page: Exported
) -> None:
    (autoscaler,) = of_kind(autoscaled, "HorizontalPodAutoscaler")
    wanted = {metric["pods"]["metric"]["name"] for metric in autoscaler["spec"]["metrics"]}
    assert len(wanted) == 3 and wanted <= page.gauges
    (rules,) = of_kind(autoscaled, "ConfigMap")
    adapted = {
        rule["name"]["as"]: rule["seriesQuery"].partition("{")[0]
        for rule in yaml.safe_load(rules["data"]["config.yaml"])["rules"]
    }
    assert adapted == {name: name for name in wanted}


def test_the_autoscaler_need_not_go_by_the_prediction() -> None:
    manifests = VARIANTS["autoscaled"].manifests(autoscaling={"predictedFirstChunkMilliseconds": 0})
    (autoscaler,) = of_kind(manifests, "HorizontalPodAutoscaler")
    assert len(autoscaler["spec"]["metrics"]) == 2


def test_whatever_else_the_chart_calls_a_metric_is_one(page: Exported) -> None:
    named = {
        name
        for path in FOLDER.rglob("*")
        if path.is_file()
        for name in re.findall(r"\btalkahead_[a-z_]+", path.read_text(encoding="utf-8"))
    }
    assert named and named <= page.series


def test_the_autoscaler_aims_below_what_a_talker_holds(autoscaled: list[Manifest]) -> None:
    (autoscaler,) = of_kind(autoscaled, "HorizontalPodAutoscaler")
    targets = {
        metric["pods"]["metric"]["name"]: metric["pods"]["target"]["averageValue"]
        for metric in autoscaler["spec"]["metrics"]
    }
    assert parameters_of(ROOT / "model_repository" / "talker")["max_step_rows"] == "auto"
    assert int(targets["talkahead_open_streams"]) < CPU_ROWS
    assert re.fullmatch(r"[1-9]\d*m", targets["talkahead_predicted_first_chunk_seconds"])
    values = (FOLDER / "values.yaml").read_text(encoding="utf-8")
    assert f"on a CPU a step of its talker takes {CPU_ROWS}" in values


def test_probes_speak_a_syllable_on_the_servers_port(manifests: list[Manifest]) -> None:
    options = options_of(manifests)
    for name in PROBES:
        probe = container_of(manifests)[name]
        asked = asked_by(probe)
        assert (asked.host, asked.http_port) == ("127.0.0.1", options.http_port)
        assert asked.deadline < probe["timeoutSeconds"]


def test_who_does_not_speak_is_unready_within_five_seconds(manifests: list[Manifest]) -> None:
    probe = container_of(manifests)["readinessProbe"]
    assert probe["periodSeconds"] + probe["failureThreshold"] * probe["timeoutSeconds"] <= 5


def test_with_a_certificate_nobody_is_served_in_plain_text() -> None:
    manifests = VARIANTS["tls"].manifests()
    options = options_of(manifests)
    (secret,) = [volume["secret"] for volume in pod_of(manifests)["volumes"] if "secret" in volume]
    (mount,) = [one for one in container_of(manifests)["volumeMounts"] if one["name"] == "tls"]
    files = (options.tls_certificate, options.tls_key, options.tls_client_ca)
    assert [str(path) for path in files] == [
        f"{mount['mountPath']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    ]
    assert secret["secretName"] == "talkahead-tls" and mount["readOnly"] is True
    assert "http" not in str([of_kind(manifests, kind) for kind in ("Service", "NetworkPolicy")])
    unasked = VARIANTS["tls"].manifests(tls={"clientCertificates": False})
    assert options_of(unasked).tls_certificate and options_of(unasked).tls_client_ca is None


def test_the_server_may_write_where_it_writes_and_nowhere_else(
    manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    container = container_of(manifests)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    volumes = {volume["name"]: volume for volume in pod_of(manifests)["volumes"]}
    mounts = {mount["mountPath"]: volumes.pop(mount["name"]) for mount in container["volumeMounts"]}
    assert not volumes
    writable = {path for path, volume in mounts.items() if "emptyDir" in volume}
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    assert writable == {str(cache_places()[0].parent), "/tmp", "/dev/shm"}
    assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"


def test_the_user_and_the_cache_are_the_images(manifests: list[Manifest]) -> None:
    context = pod_of(manifests)["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in DOCKERFILE
    assert context["runAsNonRoot"] is True and context["fsGroup"] == context["runAsGroup"]
    environment = {variable["name"]: variable["value"] for variable in container_of(manifests)["env"]}
    assert f"ENV XDG_CACHE_HOME={environment['XDG_CACHE_HOME']}\n" in DOCKERFILE


def test_the_image_is_of_the_packages_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart: dict[str, Any] = yaml.safe_load((FOLDER / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == version
    assert container_of(VARIANTS[DEFAULTS].manifests())["image"] == f"talkahead:{version}"
    assert container_of(VARIANTS["gpu"].manifests())["image"] == f"talkahead:{version}-gpu"


def test_the_proxy_finds_the_replicas_and_nothing_else_takes_it_for_one() -> None:
    manifests = VARIANTS["proxied"].manifests()
    envoy = yaml.safe_load(config_of_the_proxy(manifests))
    (cluster,) = envoy["static_resources"]["clusters"]
    (locality,) = cluster["load_assignment"]["endpoints"]
    (host,) = locality["lb_endpoints"]
    headless = next(one for one in of_kind(manifests, "Service") if one["spec"].get("clusterIP") == "None")
    options = options_of(manifests)
    assert host["endpoint"]["address"]["socket_address"] == {
        "address": headless["metadata"]["name"],
        "port_value": options.grpc_port,
    }
    (proxy,) = [one for one in of_kind(manifests, "Deployment") if is_of_the_proxy(one)]
    labels = proxy["spec"]["template"]["metadata"]["labels"]
    ours = [one for one in manifests if not is_of_the_proxy(one)]
    assert not any(selector.items() <= labels.items() for one in ours for selector in selectors_of(one))
    (listener,) = envoy["static_resources"]["listeners"]
    (container,) = proxy["spec"]["template"]["spec"]["containers"]
    assert container["ports"][0]["containerPort"] == listener["address"]["socket_address"]["port_value"]


def test_with_a_policy_of_ones_own_the_proxy_still_reaches_the_replicas() -> None:
    manifests = VARIANTS["proxied"].manifests(networkPolicy={"clients": [{"namespaceSelector": {}}]})
    (policy,) = of_kind(manifests, "NetworkPolicy")
    (proxy,) = [one for one in of_kind(manifests, "Deployment") if is_of_the_proxy(one)]
    let_in = [peer.get("podSelector", {}).get("matchLabels") for peer in policy["spec"]["ingress"][0]["from"]]
    assert proxy["spec"]["selector"]["matchLabels"] in let_in


@pytest.mark.parametrize("own", ["", "talkahead-proxy-tls"])
def test_where_replicas_speak_tls_the_proxy_does_both_ways(own: str) -> None:
    asks = {"secret": "talkahead-tls", "clientCertificates": True}
    manifests = VARIANTS["proxied"].manifests(tls=asks, proxy={"tlsSecret": own})
    resources = yaml.safe_load(config_of_the_proxy(manifests))["static_resources"]
    (listener,), (cluster,) = resources["listeners"], resources["clusters"]
    (chain,) = listener["filter_chains"]
    clients, replicas = (one["transport_socket"]["typed_config"] for one in (chain, cluster))
    assert clients["require_client_certificate"] is True
    headless = next(one for one in of_kind(manifests, "Service") if one["spec"].get("clusterIP") == "None")
    (name,) = replicas["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert name["matcher"]["exact"] == replicas["sni"] == headless["metadata"]["name"]
    (proxy,) = [one for one in of_kind(manifests, "Deployment") if is_of_the_proxy(one)]
    pod = proxy["spec"]["template"]["spec"]
    (secret,) = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert secret == (own or "talkahead-tls")
    (folder,) = [
        mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "tls"
    ]
    files = set(re.findall(r"filename: ([^}]+)}", config_of_the_proxy(manifests)))
    assert files == {f"{folder}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
    anybody = VARIANTS["proxied"].manifests(tls={"secret": "talkahead-tls"})
    assert "require_client_certificate" not in config_of_the_proxy(anybody)
    assert "transport_socket:" not in config_of_the_proxy(VARIANTS["proxied"].manifests())


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://otel:4318/v1/traces", 4318), ("https://otel.example/v1/traces", 443), ("http://otel/", 80)],
)
def test_traces_may_leave_to_their_collector_alone(url: str, port: int) -> None:
    quiet = VARIANTS[DEFAULTS].manifests()
    (policy,) = of_kind(quiet, "NetworkPolicy")
    assert policy["spec"]["egress"] == [] and options_of(quiet).traces is None
    manifests = VARIANTS[DEFAULTS].manifests(traces={"url": url, "every": 10})
    options = options_of(manifests)
    assert (options.traces, options.trace_every) == (url, 10)
    (policy,) = of_kind(manifests, "NetworkPolicy")
    assert [[one["port"] for one in rule["ports"]] for rule in policy["spec"]["egress"]] == [[53, 53], [port]]


def test_only_the_autoscaler_says_how_many_replicas_there_are(manifests: list[Manifest]) -> None:
    deployment = deployment_of(manifests)
    assert ("replicas" in deployment["spec"]) is not bool(of_kind(manifests, "HorizontalPodAutoscaler"))


def of_the_gateway(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Its objects, by kind."""
    return {one["kind"]: one for one in manifests if is_of_the_gateway(one)}


def started_gateway(manifests: list[Manifest]) -> tuple[dict[str, Any], Any, Any]:
    """Its container, and what the command takes that one's arguments for."""
    (container,) = of_the_gateway(manifests)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container, *read_options(container["args"], "talkahead-gateway")


def test_the_gateway_asks_the_proxy_and_has_the_ports_that_it_opens() -> None:
    manifests = VARIANTS["gateway"].manifests()
    container, options, made = started_gateway(manifests)
    opened = {"http": options.port, "riva": options.riva_port}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == opened
    own = of_the_gateway(manifests)
    assert {port["targetPort"]: port["port"] for port in own["Service"]["spec"]["ports"]} == opened
    labels = own["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert own["Service"]["spec"]["selector"] == labels
    (proxy,) = [one for one in of_kind(manifests, "Service") if is_of_the_proxy(one)]
    asked_port = proxy["spec"]["ports"][0]["port"]
    assert made.servers == (f"{proxy['metadata']['name']}:{asked_port}",)
    assert not deployment_of(manifests)["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (policy,) = of_kind(manifests, "NetworkPolicy")
    let_in = [peer["podSelector"].get("matchLabels") for peer in policy["spec"]["ingress"][0]["from"]]
    assert labels in let_in


def test_one_replica_needs_no_proxy_before_it() -> None:
    with pytest.raises(ChartError, match=r"gateway\.enabled: its one connection"):
        VARIANTS[DEFAULTS].render(gateway={"enabled": True})
    manifests = VARIANTS[DEFAULTS].manifests(gateway={"enabled": True}, replicas=1)
    headless = next(one for one in of_kind(manifests, "Service") if one["spec"].get("clusterIP") == "None")
    assert started_gateway(manifests)[2].servers == (f"{headless['metadata']['name']}:8001",)


def test_a_gateway_waits_for_the_longest_utterance_too() -> None:
    manifests = VARIANTS["gateway"].manifests(longestUtteranceSeconds=700)
    container, options, _ = started_gateway(manifests)
    pod = of_the_gateway(manifests)["Deployment"]["spec"]["template"]["spec"]
    delay = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > delay + options.drain_timeout > options.drain_timeout > 700


def test_keys_of_a_gateway_come_from_a_secret() -> None:
    limits = {"streamsPerKey": 2, "charactersPerKey": 900}
    with pytest.raises(ChartError, match="there is no key"):
        VARIANTS["gateway"].render(gateway=limits)
    manifests = VARIANTS["gateway"].manifests(gateway={"keysSecret": "agents", **limits})
    pod = of_the_gateway(manifests)["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (file,) = [one.partition("=")[2] for one in container["args"] if one.startswith("--api-keys-file=")]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "keys"]
    assert Path(file).parent == Path(mount["mountPath"]) and mount["readOnly"]
    assert {"--streams-per-key=2", "--characters-per-key=900"} <= set(container["args"])
    assert {"secretName": "agents", "defaultMode": 0o440} in [one.get("secret") for one in pod["volumes"]]
