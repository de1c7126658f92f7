"""Prometheus expressions over the metrics of the servers that are chosen on the dashboard."""

from __future__ import annotations

CHOSEN = 'job=~"$job", instance=~"$instance"'
WINDOW = "$__rate_interval"
"""Grafana's, which holds a few scrapes whatever time is shown."""


def now(metric: str, by: str = "") -> str:
    """The sum of gauges."""
    return f"sum{_by(by)} ({_chosen(metric)})"


def rate(counter: str, *, where: str = "", by: str = "") -> str:
    """A second, summed over what is not told apart.

    Args:
        where: more matchers of labels.
        by: labels that are told apart.
    """
    return f"sum{_by(by)} (rate({_chosen(counter, where)}[{WINDOW}]))"


def quantile(share: float, histogram: str) -> str:
    """Of a histogram's observations."""
    return f"histogram_quantile({share:g}, {rate(f'{histogram}_bucket', by='le')})"


def share_up_to(bound: str, histogram: str) -> str:
    """Of a histogram's observations, those up to one of its bounds."""
    # Prometheus 3 writes whole bounds as 0.0, earlier ones as they come.
    below = rate(f"{histogram}_bucket", where=f'le=~"{bound}([.]0)?"')
    return f"{below} / {rate(f'{histogram}_count')}"


def ratio(counter: str, other: str, by: str = "") -> str:
    """Of what two counters grew."""
    return f"{rate(counter, by=by)} / {rate(other, by=by)}"


def _chosen(metric: str, where: str = "") -> str:
    return f"{metric}{{{', '.join(filter(None, (CHOSEN, where)))}}}"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""
