"""Which of the CPU's vector units compute: the widest, or those that TALKAHEAD_CPU names.

A machine can so measure, and test, every path that its CPU has. Native code is compiled for the path
(`native_library.py`); torch is told by variables of its own, which it reads when it starts to compute, so the
launcher sets them for the models' processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from talkahead.config import CPU_VARIABLE, cpu_setting
from talkahead.errors import BadRequest


class CpuPath(StrEnum):
    """From the narrowest to the widest; each has all that those before it have."""

    GENERIC = "generic"
    """A CPU with none of the others: what the compiler makes of it."""
    AVX2 = "avx2"
    AVX512 = "avx512"
    """With products of bfloat16 and of bytes where the CPU has them."""
    AMX = "amx"

    @property
    def compiler_flags(self) -> tuple[str, ...]:
        """That keep a compiler which builds for this very CPU (-march=native) to the path."""
        wider = (path for path in _WITHOUT if list(CpuPath).index(path) > list(CpuPath).index(self))
        return tuple(flag for path in wider for flag in _WITHOUT[path])


_NEEDED = {
    CpuPath.AVX2: {"avx2", "fma"},
    CpuPath.AVX512: {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    CpuPath.AMX: {"amx_tile", "amx_bf16", "amx_int8", "avx512_bf16", "avx512_vnni"},
}
"""Features as Linux lists them."""
_WITHOUT = {
    CpuPath.AVX512: ("-mno-avx512f",),
    CpuPath.AMX: ("-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8"),
}
"""What switches a path's features off; -mno-avx512f takes all that builds on it along."""
_TORCH = {
    CpuPath.AVX2: {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    CpuPath.AVX512: {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"},
}


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """What Linux says that this CPU can do; empty where it says nothing of the kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(flags.partition(":")[2].split())


def paths_of(features: frozenset[str]) -> tuple[CpuPath, ...]:
    """The paths of a CPU with these features, the widest last."""
    found = [CpuPath.GENERIC]
    for path, needed in _NEEDED.items():
        if not needed <= features:
            break
        found.append(path)
    return tuple(found[1:] or found)


def cpu_paths() -> tuple[CpuPath, ...]:
    """The paths of this CPU, the widest last."""
    return paths_of(cpu_features())


def has_bfloat16_products() -> bool:
    """Whether the path that this process computes on has instructions that multiply bfloat16."""
    order = list(CpuPath)
    return order.index(cpu_path()) >= order.index(CpuPath.AVX512) and "avx512_bf16" in cpu_features()


def torch_environment() -> Mapping[str, str]:
    """Variables that keep torch, and what multiplies for it, to the path that was asked for."""
    return _TORCH.get(cpu_path(), {}) if cpu_setting() else {}


def cpu_path() -> CpuPath:
    """The path that this process computes on; raises BadRequest for one that the CPU lacks."""
    paths, wanted = cpu_paths(), cpu_setting()
    if not wanted:
        return paths[-1]
    if wanted not in paths:
        raise BadRequest(CPU_VARIABLE, wanted, f"{', '.join(paths)} on this CPU, or nothing for the widest")
    return CpuPath(wanted)
