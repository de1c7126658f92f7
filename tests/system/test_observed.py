"""A real Prometheus scrapes the real server: what dashboard and alerts name is there, and moves."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hearing import hear, speak
from scraper import Scraper
from served import Served
from talkahead_client import Client, InvalidRequest
from texts import SENTENCES
from waiting import eventually

from deploy.chart import FOLDER
from deploy.observability.panels import QUESTIONS
from deploy.observability.promql import CHOSEN, WINDOW

pytestmark = pytest.mark.needs("prometheus")

RULES = yaml.safe_load((FOLDER / "files" / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
SHOWN = [line.expression for question in QUESTIONS for panel in question.panels for line in panel.lines]
STREAMS = 20
"""More than there are slots, so that some wait."""
TEXT = " ".join(SENTENCES[:2])
"""Of a load that lasts for some scrapes, so that one of them finds a window in flight."""
REFUSED = 'sum(increase(talkahead_refused_requests_total{code="INVALID_ARGUMENT"}[5m]))'
STILL = {
    "talkahead_slots",
    "talkahead_step_cost_seconds",
    # What a server in health does not do.
    "talkahead_at_risk_streams",
    "talkahead_late_streams_total",
    "talkahead_late_seconds_total",
}
"""What there is, and need not move."""


def named(expressions: list[str]) -> set[str]:
    return {name for one in expressions for name in re.findall(r"\btalkahead_[a-z_]+", one)}


@pytest.fixture(scope="module")
def prometheus(server: Served, client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraper]:
    """It has seen the server idle, busy, and idle again."""
    with Scraper(server.metrics, tmp_path_factory.mktemp("prometheus")) as running:
        assert running.values("talkahead_open_streams") == [0]
        make_load(client)
        # The last of the load. Before it is scraped, no open stream may be the pause in the load's middle.
        eventually(lambda: running.values(REFUSED), lambda refused: refused[:1] > [0])
        eventually(lambda: running.values("talkahead_open_streams"), lambda open_streams: open_streams == [0])
        yield running


def make_load(client: Client) -> None:
    with ThreadPoolExecutor(STREAMS) as pool:
        streams = [
            # With the least urgency: nobody is refused, however slow the machine is.
            client.speak(TEXT, seed=seed, drafter="heads", pin_draft=True, urgency=1)
            for seed in range(STREAMS)
        ]
        list(pool.map(hear, streams))
    with client.speak(SENTENCES[1]) as left:
        next(left)
    with pytest.raises(InvalidRequest):
        speak(client, SENTENCES[0], temperature=99.0)


def test_whatever_is_named_is_there_and_moves(prometheus: Scraper) -> None:
    names = named([*SHOWN, *(rule["expr"] for rule in RULES)])
    assert len(names) > 20
    assert sorted(name for name in names if not prometheus.values(f"count({name}) > 0")) == []
    moved = {name for name in names if prometheus.values(f"sum(changes({name}[5m])) > 0")}
    assert sorted(names - moved - STILL) == []


def test_every_line_of_the_dashboard_has_numbers(prometheus: Scraper) -> None:
    for expression in SHOWN:
        values = prometheus.values(expression.replace(CHOSEN, 'job="talkahead"').replace(WINDOW, "1m"))
        assert any(map(math.isfinite, values)), expression


def test_ends_are_told_apart(prometheus: Scraper) -> None:
    def ended(reason: str) -> float:
        return sum(prometheus.values(f'increase(talkahead_streams_ended_total{{reason="{reason}"}}[5m])'))

    assert ended("cancelled") > 0 and ended("end_of_speech") >= STREAMS and ended("error") == 0
    assert prometheus.values(REFUSED)[0] > 0


def test_no_alert_is_wrong_of_a_server_in_health(prometheus: Scraper) -> None:
    assert [
        rule["alert"] for rule in RULES if prometheus.values(rule["expr"]) and rule["alert"] not in BUSY
    ] == []


BUSY = {"TalkaheadStallRisk", "TalkaheadStalls", "TalkaheadSlowFirstChunk"}
"""What holds for a moment on a machine that tests keep busy."""


def test_the_page_is_as_prometheus_wants_it(server: Served, tmp_path: Path) -> None:
    ours = [line for line in server.metrics_page().splitlines() if re.match(r"(# \w+ )?talkahead_", line)]
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input="\n".join(ours) + "\n", capture_output=True, encoding="utf-8"
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
