"""How many requests Triton hands a model at a time, from the server's metrics page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_SAMPLE = re.compile(r'^nv_inference_(count|exec_count)\{model="(\w+)",.*\} (\S+)$', re.MULTILINE)
_REQUESTS, _PASSES = "count", "exec_count"

Counts = Counter[tuple[str, str]]
"""Requests and passes since the server's start, by what is counted and by model."""


def read(page: str) -> Counts:
    """Those of all versions of a model together; nothing of an empty page."""
    found: Counts = Counter()
    for what, model, value in _SAMPLE.findall(page):
        found[what, model] += int(float(value))
    return found


def requests_a_pass(pieces: Iterable[tuple[Counts, Counts]]) -> dict[str, float]:
    """Means by model over pieces of time, each from one count to another."""
    passed: Counts = Counter()
    for before, after in pieces:
        passed.update({key: after[key] - before[key] for key in after})
    models = sorted(model for what, model in passed if what == _PASSES and passed[what, model])
    return {model: passed[_REQUESTS, model] / passed[_PASSES, model] for model in models}
