"""Batches are read off Triton's own counts."""

from __future__ import annotations

from collections import Counter

from instruments.server import Server
from perf.batches import read, requests_a_pass


def page(*rows: tuple[str, int, int]) -> str:
    lines = ["# HELP nv_inference_count Number of inferences", "nv_cpu_utilization 0.5"]
    for model, requests, passes in rows:
        lines.append(f'nv_inference_count{{model="{model}",version="1"}} {requests}')
        lines.append(f'nv_inference_exec_count{{model="{model}",version="1"}} {passes}')
    return "\n".join(lines)


def test_means_are_of_what_passed_in_all_pieces() -> None:
    first = (
        read(page(("vocoder", 10, 10), ("encoder", 5, 5))),
        read(page(("vocoder", 30, 20), ("encoder", 5, 5))),
    )
    second = (read(page(("vocoder", 90, 80))), read(page(("vocoder", 100, 90))))
    assert requests_a_pass([first, second]) == {"vocoder": 1.5}


def test_a_server_that_tells_nothing_has_no_batches() -> None:
    assert read(Server("127.0.0.1:1", None).metrics_page()) == Counter()
    assert requests_a_pass([(Counter(), Counter())]) == {}
