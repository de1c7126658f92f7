"""The code path of this CPU, and what is refused."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from talkahead.config import CPU_VARIABLE, cpu_setting
from talkahead.cpu_path import CpuPath, cpu_path, cpu_paths, paths_of, torch_environment
from talkahead.errors import BadRequest

TESTS = Path(__file__).parent
AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
AMX = AVX512 | {"avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8"}


@pytest.mark.parametrize(
    ("features", "paths"),
    [
        (frozenset(), [CpuPath.GENERIC]),
        (frozenset({"avx2"}), [CpuPath.GENERIC]),
        (AVX2, [CpuPath.AVX2]),
        (AVX512, [CpuPath.AVX2, CpuPath.AVX512]),
        (AMX, [CpuPath.AVX2, CpuPath.AVX512, CpuPath.AMX]),
        (AMX - {"avx512bw"}, [CpuPath.AVX2]),
    ],
)
def test_a_cpu_has_every_path_up_to_its_widest(features: frozenset[str], paths: list[CpuPath]) -> None:
    assert list(paths_of(features)) == paths


def test_the_widest_is_taken_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALKAHEAD_CPU", raising=False)
    assert cpu_path() is cpu_paths()[-1]


def test_a_path_that_the_cpu_lacks_is_refused_with_those_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALKAHEAD_CPU", "avx1024")
    with pytest.raises(
        BadRequest, match=rf"^TALKAHEAD_CPU: 'avx1024' .* allowed: {', '.join(cpu_paths())} on"
    ):
        cpu_path()


def test_a_narrower_path_switches_off_all_that_is_wider() -> None:
    amx, avx512 = ["-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8"], ["-mno-avx512f"]
    flags = {path: sorted(path.compiler_flags) for path in CpuPath}
    assert flags == {
        CpuPath.GENERIC: sorted(avx512 + amx),
        CpuPath.AVX2: sorted(avx512 + amx),
        CpuPath.AVX512: sorted(amx),
        CpuPath.AMX: [],
    }


def passed(environment: Mapping[str, str], *chosen: str) -> int:
    """How many tests of tests/unit pass in this environment, all of those chosen."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen],
        env={**os.environ, **environment},
        cwd=TESTS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    (count,) = re.findall(r"(\d+) passed", done.stdout)
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize("path", [] if cpu_setting() else cpu_paths()[:-1])
def test_results_are_exact_on_the_narrower_paths_too(path: CpuPath) -> None:
    """What the other tests hold on the widest path: bits that depend on no company, tokens on no draft."""
    chosen = (
        "backbone/test_native_decoder.py",
        "drafting/test_drafters_exactness.py",
        "drafting/test_native_chain.py",
        "drafting/test_native_heads.py",
        "engine/test_exactness.py",
        "speculation/test_native_walk.py",
        "speculation/test_sampling.py",
    )
    assert passed({CPU_VARIABLE: path}, *chosen) > 500


@pytest.mark.slow
@pytest.mark.needs("bfloat16", "int8")
def test_tiles_are_exact_where_the_cpu_has_none(tmp_path: Path) -> None:
    """In tiles of plain C, beside the panels of the widest path."""
    header = shlex.quote(str(TESTS / "backbone" / "emulated_tiles.h"))
    environment = {
        "TALKAHEAD_CFLAGS": f"{os.environ.get('TALKAHEAD_CFLAGS', '')} -include {header}",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    chosen = (
        "backbone/test_native_decoder.py",
        "drafting/test_native_heads.py",
        "families/test_native_text_encoder.py",
    )
    assert passed(environment, *chosen, "-k", "tiles and not excused") > 200


def test_torch_is_kept_to_a_path_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the models' processes, which the launcher starts with these variables."""
    monkeypatch.delenv(CPU_VARIABLE, raising=False)
    assert torch_environment() == {}
    if CpuPath.AVX2 not in cpu_paths():
        return
    monkeypatch.setenv(CPU_VARIABLE, CpuPath.AVX2)
    program = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    environment = {**os.environ, **torch_environment()}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "AVX2"
