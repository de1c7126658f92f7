"""Grafana's dashboard of the questions in `panels`, as the JSON that it imports or is provisioned with."""

from __future__ import annotations

from string import ascii_uppercase

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

from deploy.observability.panels import QUESTIONS, Panel

_SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${source}")
_THIRD = 8
"""Of the grid's 24 columns."""
_HEIGHT = 8
_ANY_SERIES = "talkahead_slots"
"""A metric that every server has, to find the jobs and instances by."""


def render() -> str:
    """The whole of it, the same for the same questions."""
    board = (
        builders.Dashboard("Talkahead")
        .uid("talkahead")
        .description("Is it fast, smooth, full? Does drafting pay? What fails?")
        .tags(["talkahead", "speech"])
        .time("now-1h", "now")
        .refresh("10s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(builders.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_variable(_choice("job", f"label_values({_ANY_SERIES}, job)"))
        .with_variable(_choice("instance", f'label_values({_ANY_SERIES}{{job=~"$job"}}, instance)'))
    )
    for question in QUESTIONS:
        board.with_row(builders.Row(question.asks))
        for panel in question.panels:
            board.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


def _choice(name: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .query(query)
        .datasource(_SOURCE)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(panel: Panel) -> timeseries.Panel:
    chart = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.about)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .min(0)
        .span(_THIRD)
        .height(_HEIGHT)
        .fill_opacity(30 if panel.is_stacked else 0)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
    )
    if panel.is_stacked:
        chart.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if panel.limit is not None:
        _draw_limit(chart, panel.limit)
    for name, line in zip(ascii_uppercase, panel.lines, strict=False):
        query = prometheus.Dataquery().ref_id(name).expr(line.expression).legend_format(line.legend)
        chart.with_target(query)
    return chart


def _draw_limit(chart: timeseries.Panel, limit: float) -> None:
    steps = [dashboard.Threshold(color="green", value=None), dashboard.Threshold(color="red", value=limit)]
    chart.thresholds(
        builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
    ).thresholds_style(
        common_builders.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
    )
