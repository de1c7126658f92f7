"""The attention kernel over slots equals attention written out: in Triton's interpreter, and on a GPU.

That it compiles for GPUs is seen without one. The interpreter is asked for by the environment before Triton
is imported, hence processes of their own.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from talkahead.backbone.tree_attention import MOST_NODES, AttentionShape, kernel_for, misfit
from tree_attention_cases import CASES, NARROW, THROUGH_A_DECODER, WIDE, Case, error_of

SHAPE = AttentionShape(heads=8, kv_heads=2, dim=64, positions=300, nodes=8)
HERE = Path(__file__).parent
TOLERANCES = {torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 3e-2}
"""Of values around 1; what is not seen is ten thousand times as large."""
LEAST_SHARED_MEMORY = 64 << 10
"""Of a processor of any GPU since 2018, in bytes."""

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def run(script: str, cache: Path, **environment: str) -> dict[str, float]:
    known = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, HERE / script],
        env={**known, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, float] = json.loads(done.stdout)
    return printed


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    return run("tree_attention_cases.py", tmp_path_factory.mktemp("cache"), TRITON_INTERPRET="1")


@pytest.mark.needs("triton")
@every_case
def test_interpreted_it_equals_attention_written_out(case: Case, interpreted: dict[str, float]) -> None:
    assert interpreted[case.name] < TOLERANCES[case.dtype]


@pytest.mark.needs("triton")
def test_interpreted_a_decoder_scores_with_it_as_without(interpreted: dict[str, float]) -> None:
    assert interpreted[THROUGH_A_DECODER] < 1e-5


@pytest.mark.needs("gpu", "triton")
@every_case
def test_on_a_gpu_it_equals_attention_written_out(case: Case) -> None:
    assert error_of(case, "cuda") < TOLERANCES[case.dtype]


@pytest.mark.slow
@pytest.mark.needs("triton")
def test_it_compiles_for_gpus_and_fits_into_their_shared_memory(tmp_path: Path) -> None:
    taken = run("tree_attention_compiled.py", tmp_path)
    assert len(taken) == 6
    assert max(taken.values()) <= LEAST_SHARED_MEMORY


def test_a_cpu_has_no_kernel(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert kernel_for(torch.device("cpu"), WIDE, SHAPE) is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("dtype", "dim", "nodes", "said"),
    [
        (
            torch.float64,
            64,
            8,
            "keys are torch.float64; allowed: torch.float32, torch.float16, torch.bfloat16",
        ),
        (NARROW, 80, 8, "heads are of 80; allowed: 16, 32, 64, 128"),
        (NARROW, 64, MOST_NODES + 1, "trees have up to 129 nodes; allowed: up to 128"),
    ],
)
def test_what_it_does_not_compute_is_left_to_torch_with_a_word(
    dtype: torch.dtype, dim: int, nodes: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    shape = replace(SHAPE, dim=dim, nodes=nodes)
    assert misfit(dtype, shape) == said
    with caplog.at_level(logging.WARNING):
        assert kernel_for(torch.device("cuda"), dtype, shape) is None
    assert caplog.messages == [f"attention looks at all positions of a slot, without its kernel: {said}"]


def test_what_it_computes_is_no_misfit() -> None:
    assert misfit(NARROW, replace(SHAPE, nodes=MOST_NODES)) is None


def test_a_device_that_cannot_run_it_is_left_to_torch_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, which can run it")
    with caplog.at_level(logging.WARNING):
        assert kernel_for(torch.device("cuda"), NARROW, SHAPE) is None
    assert len(caplog.messages) == 1 and "without its kernel: " in caplog.messages[0]
