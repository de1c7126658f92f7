"""Keeps back what this machine has not got the means for, and says so at the end of the run."""

from __future__ import annotations

from collections import Counter

import pytest
from requirements import REQUIREMENTS

_KEPT_BACK = "needs "


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for missing in _missing(item):
            item.add_marker(pytest.mark.skip(reason=f"{_KEPT_BACK}{REQUIREMENTS[missing]}"))


def _missing(item: pytest.Item) -> list[str]:
    wanted = [name for marker in item.iter_markers("needs") for name in marker.args]
    unknown = sorted(set(wanted) - set(REQUIREMENTS))
    if unknown:
        raise pytest.UsageError(f"{item.nodeid} needs {unknown[0]}; known: {', '.join(REQUIREMENTS)}")
    return [name for name in wanted if not REQUIREMENTS[name].is_met()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason, whoever gave it."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"not run: {_sentence(count, reason)}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    assert isinstance(report.longrepr, tuple), "a skipped report has path, line and reason"
    return report.longrepr[2].removeprefix("Skipped: ")


def _sentence(count: int, reason: str) -> str:
    tests = "1 test" if count == 1 else f"{count} tests"
    if not reason.startswith(_KEPT_BACK):
        return f"{tests}: {reason}"
    return f"{tests} {'needs' if count == 1 else 'need'} {reason.removeprefix(_KEPT_BACK)}"
