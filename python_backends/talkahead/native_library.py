"""C sources as shared libraries: compiled where they run, for the CPU they run on, and kept.

A compiler is all it needs. Functions and structs are what the sources say (`native_declarations.py`). The
name in the cache is a hash of the source, the headers that it includes, the flags and the CPU, so that no old
library is loaded; a file appears under its name whole, whoever else compiles at the same time. TALKAHEAD_CPU
chooses among the code paths that the CPU has (`cpu_path.py`), and more flags may be given in
TALKAHEAD_CFLAGS, as `make sanitize` does.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from talkahead.cache_places import cache_places
from talkahead.config import child_environment, compiler_setting
from talkahead.cpu_path import cpu_path
from talkahead.native_declarations import NativeStruct, files_of, functions, layout_checks
from talkahead.private_folder import private_folder

COMPILERS = ("gcc", "cc")
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=fast", "-w", "-shared", "-fPIC")
_COMPILE_LIMIT_S = 300  # three seconds of work, on a machine whose cores may all be taken


class NativeUnavailable(Exception):
    """Why there is no native code here, as the end of a sentence."""


@dataclass(frozen=True, eq=False)
class NativeCall:
    """A function of a library and the struct that it is given each time, by Python or by native callers."""

    function: Any
    given: NativeStruct

    def run(self) -> int:
        """What the function returns: 0, unless it was given what does not fit."""
        result: int = self.function(ctypes.byref(self.given))
        return result

    @property
    def address(self) -> int:
        """Of the function."""
        address = ctypes.cast(self.function, ctypes.c_void_p).value
        assert address is not None
        return address


class NativeLibrary(SimpleNamespace):
    """The functions of one C file, each with the types that its definition says; there are no others."""

    def __init__(self, path: Path, source: Path) -> None:
        library = ctypes.CDLL(str(path))
        super().__init__(path=path)
        for one in functions(source):
            function = library[one.name]
            function.restype, function.argtypes = one.result, one.arguments
            setattr(self, one.name, function)

    def address(self, name: str) -> int | None:
        """Of a function, for native callers."""
        return ctypes.cast(getattr(self, name), ctypes.c_void_p).value

    def call(self, name: str, given: NativeStruct, *held: object) -> NativeCall:
        """Args:
        held: what the struct points at, as long as there is a call.
        """
        given.held = held
        return NativeCall(getattr(self, name), given)


@lru_cache(maxsize=8)
def load_library(source: Path) -> NativeLibrary:
    """The library of one C file, compiled on the first call on this machine; raises NativeUnavailable."""
    name = f"{source.stem}-{_fingerprint(source)}.so"
    failures = []
    for folder in cache_folders():
        try:
            return _load_from(folder / name, source)
        except (OSError, subprocess.SubprocessError) as error:
            failures.append(f"{folder}: {error}")
    raise NativeUnavailable("; ".join(failures) or "no folder to keep the library in")


def _load_from(path: Path, source: Path) -> NativeLibrary:
    if not path.exists():
        _compile(source, path)
    return NativeLibrary(path, source)


def _compile(source: Path, target: Path) -> None:
    """With assertions after it that its structs are what Python takes them for."""
    compiler = _compiler()
    if compiler is None:
        raise NativeUnavailable(f"none of {', '.join(COMPILERS)} is on the PATH")
    # In bytes, and said in English: Python within the server takes text for ASCII.
    text = f'#include "{source}"\n{layout_checks(source)}'.encode(errors="surrogateescape")
    environment = {**child_environment({}), "LC_ALL": "C"}
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [compiler, *_flags(), "-x", "c", "-", "-o", str(built), "-lm", "-pthread"]
        done = subprocess.run(
            command, input=text, capture_output=True, env=environment, timeout=_COMPILE_LIMIT_S
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise NativeUnavailable(f"{compiler} failed: {source}: {said[:500]}")
        built.replace(target)


def _flags() -> list[str]:
    return [*FLAGS, *cpu_path().compiler_flags, *compiler_setting()]


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def cache_folders() -> Iterator[Path]:
    """Where what was made for this machine is kept. Of this user alone: what lies there is executed."""
    for folder in cache_places():
        with suppress(OSError):
            yield private_folder(folder, may_be_seen=True)


def _fingerprint(source: Path) -> str:
    own = b"".join(path.read_bytes() for path in files_of(source))
    parts = (own, layout_checks(source).encode(), " ".join(_flags()).encode(), cpu_model().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def cpu_model() -> str:
    """Model and features of the CPU: -march=native means these."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join([platform.machine(), *(line for line in lines if line.startswith(wanted))])
