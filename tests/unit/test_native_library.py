"""C sources compile wherever the server runs: on every path of the CPU, by a Python whose text is ASCII."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from select import select

import pytest
import talkahead
from talkahead.config import CPU_VARIABLE
from talkahead.cpu_path import CpuPath, cpu_paths
from talkahead.native_library import FLAGS

SOURCES = sorted(Path(talkahead.__file__).parent.rglob("native/*.c"))
LOAD = (
    "import os, sys; os.environ['LC_ALL'] = 'C.UTF-8'; from pathlib import Path; "
    "from talkahead.native_library import load_library; "
)
LOAD_ALL = LOAD + "[load_library(Path(name)) for name in sys.argv[1:]]"
TELL_WHY = LOAD + "\ntry: load_library(Path(sys.argv[1]))\nexcept Exception as error: print(ascii(error))"
LIKE_TRITON = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
"""The server's Python takes text for ASCII, whatever the locale of the programs that it starts."""
CPUS = ("x86-64", "haswell", "cooperlake", "sapphirerapids")
"""One of each path, from generic to AMX; compiling for them takes none of them."""
QUOTES = "‘larger’"


def loaded(cache: Path, program: str, *sources: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **LIKE_TRITON, "XDG_CACHE_HOME": str(cache), **more}
    command = [sys.executable, "-c", program, *map(str, sources)]
    return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")


def with_talking_compiler(folder: Path, then: str = "") -> str:
    """A PATH whose gcc prints more than ASCII, and insists on the C locale."""
    say = f'[ "$LC_ALL" = C ] || exit 1\necho "note: {QUOTES}" >&2\n{then}\n'
    folder.mkdir()
    (folder / "gcc").write_text(f'#!/bin/sh\n{say}exec {shutil.which("gcc")} "$@"\n', encoding="utf-8")
    (folder / "gcc").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "small.c"
    path.write_text("int small(void) {\n    return 1;\n}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("path", cpu_paths())
def test_all_libraries_load_on_every_path_with_an_empty_cache(tmp_path: Path, path: CpuPath) -> None:
    done = loaded(tmp_path, LOAD_ALL, *SOURCES, **{CPU_VARIABLE: path, "TALKAHEAD_CFLAGS": "-O1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "talkahead").glob("*.so"))) == len(SOURCES)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for CPUs of x86")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_compiler_has_nothing_to_say_for_any_cpu(source: Path, cpu: str) -> None:
    """Not even that vectors which the CPU lacks are passed by value (-Wpsabi), which -w leaves on."""
    command = ["gcc", *FLAGS, f"-march={cpu}", "-O1", "-S", "-o", os.devnull, str(source)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_compiler_says_in_other_letters_keeps_no_library_from_loading(
    tmp_path: Path, source: Path
) -> None:
    path = with_talking_compiler(tmp_path / "bin")
    done = loaded(tmp_path / "cache", LOAD_ALL, source, PATH=path)
    assert (done.returncode, done.stderr) == (0, "")


def test_why_a_compiler_failed_is_told_in_other_letters_too(tmp_path: Path, source: Path) -> None:
    path = with_talking_compiler(tmp_path / "bin", then="exit 1")
    done = loaded(tmp_path / "cache", TELL_WHY, source, PATH=path)
    assert done.stdout.startswith("NativeUnavailable(") and ascii(QUOTES)[1:-1] in done.stdout


def test_processes_that_compile_together_keep_one_library(tmp_path: Path, source: Path) -> None:
    """None of four compilers goes on before all have begun."""
    begun, going_on = tmp_path / "begun", tmp_path / "going-on"
    for pipe in (begun, going_on):
        os.mkfifo(pipe)
    path = with_talking_compiler(tmp_path / "bin", f'echo >"{begun}"\nread -r _ <"{going_on}"')
    with (
        begun.open("r+b", buffering=0) as beginnings,
        going_on.open("r+b", buffering=0) as permissions,
        ThreadPoolExecutor(4) as pool,
    ):
        starts = [pool.submit(loaded, tmp_path, LOAD_ALL, source, PATH=path) for _ in range(4)]
        for _ in starts:
            assert select([beginnings], [], [], 100)[0], "a compiler has not begun"
            beginnings.read(1)
        permissions.write(b"\n" * len(starts))
        assert [start.result().returncode for start in starts] == [0] * 4
    (library,) = (tmp_path / "talkahead").iterdir()
    assert library.suffix == ".so"
