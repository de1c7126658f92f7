"""Dashboard, alerts and their page name metrics that there are; names are as Prometheus wants them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from exported import COUNTER, HISTOGRAM, exported
from rendered import VARIANTS, of_kind

from deploy.chart import FOLDER
from deploy.manifests import DASHBOARD
from deploy.observability import dashboard
from deploy.observability.panels import QUESTIONS

ROOT = Path(__file__).parents[3]
ALERTS = FOLDER / "files" / "alerts.yaml"
PAGE = ROOT / "docs" / "observability.md"
OBSERVED = VARIANTS["observed"].manifests()
EXPRESSIONS = [line.expression for question in QUESTIONS for panel in question.panels for line in panel.lines]


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def named(text: str) -> set[str]:
    return set(re.findall(r"\btalkahead_[a-z_]+", text))


def test_every_metric_that_is_named_is_exported() -> None:
    series = exported().series
    expressions = [*EXPRESSIONS, *(str(alert["expr"]) for alert in alerts())]
    assert all(named(expression) for expression in expressions)
    assert set().union(*map(named, expressions)) <= series


def test_the_page_names_every_metric() -> None:
    assert named(PAGE.read_text(encoding="utf-8")) == set(exported().kinds)


def test_the_page_names_every_alert() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [alert["alert"] for alert in alerts() if f"`{alert['alert']}`" not in page] == []


def test_names_say_kind_and_unit() -> None:
    page = exported()
    for name, kind in page.kinds.items():
        assert name.endswith("_total") is (kind == COUNTER), name
        assert name.endswith("_seconds") or kind != HISTOGRAM, name
        assert len(page.abouts[name]) > 20, name


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names) >= 10
    for alert in alerts():
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert set(alert["annotations"]) == {"summary", "runbook"}
        assert all(len(text) > 30 for text in alert["annotations"].values())


def test_grafana_has_a_panel_for_each_answer() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == [question.asks for question in QUESTIONS]
    targets = [target for panel in board["panels"] for target in panel.get("targets", ())]
    assert [target["expr"] for target in targets] == EXPRESSIONS
    assert all(target["refId"] for target in targets)


def test_the_dashboard_is_what_is_made_of_its_panels() -> None:
    assert DASHBOARD.read_text(encoding="utf-8") == dashboard.render()


def test_the_chart_hands_them_on_unchanged() -> None:
    (shown,) = of_kind(OBSERVED, "ConfigMap")
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert shown["data"]["talkahead.json"] == DASHBOARD.read_text(encoding="utf-8").rstrip()
    (rules,) = of_kind(OBSERVED, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load(ALERTS.read_text(encoding="utf-8"))


def test_an_operator_finds_them_by_the_labels_that_it_asks_for() -> None:
    label = {"release": "prometheus"}
    manifests = VARIANTS["observed"].manifests(alerts={"labels": label}, dashboard={"labels": label})
    for kind in ("ConfigMap", "PrometheusRule"):
        (one,) = of_kind(manifests, kind)
        assert label.items() <= one["metadata"]["labels"].items()


MINUTES = 40
HEALTHY = {
    "talkahead_slots": "16x40",
    "talkahead_open_streams": "4x40",
    "talkahead_queued_streams": "0x40",
    "talkahead_audio_seconds_total": "0+240x40",
    'talkahead_streams_ended_total{reason="end_of_speech"}': "0+100x40",
    'talkahead_streams_ended_total{reason="error"}': "0x40",
    'talkahead_streams_ended_total{reason="vanished"}': "0x40",
    'talkahead_streams_ended_total{reason="refused"}': "0x40",
    'talkahead_refused_requests_total{code="INTERNAL"}': "0x40",
    'talkahead_least_slack_seconds_bucket{le="0"}': "0x40",
    'talkahead_least_slack_seconds_bucket{le="0.02"}': "0x40",
    "talkahead_least_slack_seconds_count": "0+100x40",
    'talkahead_first_chunk_seconds_bucket{le="0.1"}': "0+100x40",
    'talkahead_first_chunk_seconds_bucket{le="1"}': "0+100x40",
    'talkahead_first_chunk_seconds_bucket{le="+Inf"}': "0+100x40",
    "talkahead_codec_seconds_total": "0+30x40",
    'talkahead_accepted_tokens_total{drafter="heads"}': "0+900x40",
    'talkahead_drafted_tokens_total{drafter="heads"}': "0+2000x40",
}
"""Series of one replica, a minute apart, as promtool writes them."""
SICK: dict[str, dict[str, str]] = {
    "TalkaheadAbsent": {"talkahead_slots": "_x40"},
    "TalkaheadSilent": {"talkahead_audio_seconds_total": "700x40"},
    "TalkaheadErrors": {'talkahead_streams_ended_total{reason="error"}': "0+3x40"},
    "TalkaheadInternalRefusals": {'talkahead_refused_requests_total{code="INTERNAL"}': "0x35 1x5"},
    "TalkaheadRestarted": {"talkahead_audio_seconds_total": "0+240x32 0+240x8"},
    "TalkaheadStalls": {
        'talkahead_least_slack_seconds_bucket{le="0"}': "0+2x40",
        'talkahead_least_slack_seconds_bucket{le="0.02"}': "0+2x40",
    },
    "TalkaheadStallRisk": {'talkahead_least_slack_seconds_bucket{le="0.02"}': "0+10x40"},
    "TalkaheadSlowFirstChunk": {'talkahead_first_chunk_seconds_bucket{le="0.1"}': "0+80x40"},
    "TalkaheadQueueing": {"talkahead_queued_streams": "1x40"},
    "TalkaheadRefusing": {'talkahead_streams_ended_total{reason="refused"}': "0+1x40"},
    "TalkaheadCodecFull": {"talkahead_codec_seconds_total": "0+57x40"},
    "TalkaheadClientsVanish": {'talkahead_streams_ended_total{reason="vanished"}': "0+20x40"},
    "TalkaheadDraftsRejected": {'talkahead_accepted_tokens_total{drafter="heads"}': "0+20x40"},
}
"""What differs where an alert fires."""


def labelled(series: str) -> str:
    """With the labels that Prometheus gives what it scrapes."""
    name, _, own = series.partition("{")
    labels = ['namespace="speech"', 'job="talkahead"', 'instance="a"', *filter(None, [own.rstrip("}")])]
    return f"{name}{{{', '.join(labels)}}}"


def case(differs: dict[str, str], *fire: str) -> dict[str, Any]:
    """Of promtool's tests: the alerts that fire at the end, where some series differ."""
    series = [{"series": labelled(name), "values": values} for name, values in {**HEALTHY, **differs}.items()]
    firing = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in fire],
    }
    return {"interval": "1m", "input_series": series, "promql_expr_test": [firing]}


@pytest.mark.needs("prometheus")
def test_prometheus_reads_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", ALERTS], capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and f"{len(alerts())} rules found" in done.stdout, done.stderr


@pytest.mark.needs("prometheus")
def test_an_alert_fires_where_it_should_and_no_other(tmp_path: Path) -> None:
    assert set(SICK) == {alert["alert"] for alert in alerts()}
    cases = [case({}), *(case(differs, name) for name, differs in SICK.items())]
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": cases}), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
