"""docker-compose.yml is what the Compose Specification allows, and what it does not allow is told."""

from __future__ import annotations

import re

import pytest
import yaml
from talkahead_client.say import _parser as make_say_parser
from talkahead_gateway.command import read_options

from deploy.compose import FILE, services

TEXT = FILE.read_text(encoding="utf-8")


def test_the_file_is_allowed() -> None:
    assert services(TEXT) == [
        "talkahead",
        "second",
        "proxy",
        "gateway",
        "load",
        "prometheus",
        "grafana",
    ]


def test_what_is_mounted_is_there() -> None:
    compose = yaml.safe_load(TEXT)
    volumes = [volume for one in compose["services"].values() for volume in one.get("volumes", ())]
    sources = [volume.partition(":")[0] for volume in volumes]
    named = {source for source in sources if not source.startswith(".")}
    assert named == set(compose["volumes"])
    assert [source for source in sources if source not in named and not (FILE.parent / source).exists()] == []


def test_prometheus_scrapes_both_servers_and_reads_the_rules() -> None:
    compose = yaml.safe_load(TEXT)["services"]
    path = FILE.parent / "deploy" / "observability" / "prometheus.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    [scraped] = config["scrape_configs"]
    [looked_up] = scraped["dns_sd_configs"]
    port = looked_up["port"]
    assert f"127.0.0.1:{port}:{port}" in compose["talkahead"]["ports"]
    assert set(looked_up["names"]) == {"talkahead", "second"} <= set(compose)
    mounted = {volume.split(":")[1] for volume in compose["prometheus"]["volumes"]}
    assert set(config["rule_files"]) <= mounted


def test_the_proxy_is_told_all_that_its_configuration_asks_for() -> None:
    services = yaml.safe_load(TEXT)["services"]
    told = services["proxy"]["environment"]
    config = (FILE.parent / "deploy" / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+)\}", config)) == set(told)
    assert {told["FIRST"], told["SECOND"]} == {"talkahead", "second"} <= set(services)
    ports = {port.rpartition(":")[2] for port in services["talkahead"]["ports"]}
    assert {told[f"{name}_{door}"] for name in ("FIRST", "SECOND") for door in ("GRPC", "HTTP")} <= ports
    assert services["second"]["build"] == services["talkahead"]["build"]


def test_grafana_shows_the_dashboard_of_that_prometheus() -> None:
    compose = yaml.safe_load(TEXT)["services"]
    folder = FILE.parent / "deploy" / "observability" / "grafana"
    [source] = yaml.safe_load((folder / "datasources.yaml").read_text(encoding="utf-8"))["datasources"]
    assert (
        source["url"] == "http://prometheus:9090" and "127.0.0.1:9090:9090" in compose["prometheus"]["ports"]
    )
    [provider] = yaml.safe_load((folder / "dashboards.yaml").read_text(encoding="utf-8"))["providers"]
    home = compose["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    mounted = {volume.split(":")[1] for volume in compose["grafana"]["volumes"]}
    assert home in mounted and home.startswith(provider["options"]["path"])


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ("shm_size: ", "shm_sise: ", "shm_sise"),
        ("shm_size: 256mb", "shm_size: much", r"shm_size: value `much`.*unit must be"),
        (
            "restart: unless-stopped\n    deploy:",
            "restart: sometimes\n    deploy:",
            "`sometimes`, expected one of `no`, `always`",
        ),
        ("stop_grace_period: 60s", "stop_grace_period: soon", "stop_grace_period: duration `soon`"),
        ('"127.0.0.1:8001:8001"', '"127.0.0.1:grpc:8001"', r"ports\[1\]: error parsing port"),
        ("init: true", "init: perhaps", "init"),
    ],
)
def test_what_is_not_is_told_with_its_field(written: str, instead: str, told: str) -> None:
    assert TEXT.count(written) == 1
    with pytest.raises(ValueError, match=told):
        services(TEXT.replace(written, instead))


def test_the_load_is_spoken_by_options_that_the_client_has() -> None:
    command = yaml.safe_load(TEXT)["services"]["load"]["command"][0]
    found = re.search(r"talkahead-say (.*?);\s+do", command)
    assert found is not None
    options = make_say_parser().parse_args(found[1].replace("${LOAD_ON:-talkahead:8001}", "a:1").split())
    assert options.jobs and options.retries and str(options.file) == "/texts.txt"


def test_the_gateway_is_started_as_it_can_be() -> None:
    compose = yaml.safe_load(TEXT)["services"]
    started = compose["gateway"]["command"]
    plain = [one.replace("${GATEWAY_TO:-talkahead:8001}", "talkahead:8001") for one in started]
    options, made = read_options(plain, "talkahead-gateway")
    assert made.servers == ("talkahead:8001",) and "talkahead" in compose
    published = {port.rpartition(":")[2] for port in compose["gateway"]["ports"]}
    assert published == {str(options.port), str(options.riva_port)}
    assert f":{options.port}/health" in compose["gateway"]["healthcheck"]["test"][-1]
    dockerfile = FILE.parent / compose["gateway"]["build"]["dockerfile"]
    assert "EXPOSE 8080 50051\n" in dockerfile.read_text(encoding="utf-8")
