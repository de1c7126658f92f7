"""`talkahead doctor`: what this machine has, what it lacks, and how to get that."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from talkahead.cpu_path import CpuPath, cpu_path, cpu_paths
from talkahead.errors import ArtifactMismatch, BadRequest, TalkaheadError
from talkahead.launcher.installation import PYTHON_TAG, find_libpython, find_wheel, missing_libpython
from talkahead.manifest import NAME as MANIFEST
from talkahead.manifest import Manifest
from talkahead.speech_format import NAME as FORMAT
from talkahead.speech_format import SpeechFormat

_MIB = 1 << 20
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_MEMORY_MIB = 64
"""Each Python model takes 1 MiB and grows it by its largest batch."""
_TEMPORARY_CHARACTERS = 54
"""A Unix socket's path has at most 107, of which the models' meeting place and its sockets take the rest."""
_GLIBC = (2, 34)
_PYTHONS = "Python 3.11, 3.12 or 3.13"
_MODULES = {
    "torch": "torch==2.13.0",
    "numpy": "numpy==1.26.4",
    "safetensors": "safetensors==0.8.0",
    "pycrfsuite": "python-crfsuite==0.9.12",
    "gruut_lang_en": "gruut_lang_en==2.0.1",
    "unicode_rbnf": "unicode-rbnf==2.4.1",
    "tritonclient": "'tritonclient[grpc]==2.51.0'",
}
_MODELS_OF_WEIGHTS = ("encoder", "talker", "vocoder")


@dataclass(frozen=True)
class Finding:
    """One line of the report. `remedy` is empty when nothing is wrong."""

    what: str
    found: str
    remedy: str = ""
    is_needed: bool = True

    def __str__(self) -> str:
        mark = "ok  " if not self.remedy else "MISS" if self.is_needed else "note"
        return f"{mark}  {self.what}: {self.found}" + (f"\n      -> {self.remedy}" if self.remedy else "")


def examine(repository: Path, ports: tuple[int, ...]) -> int:
    """Prints the findings; 1 when something is missing that the server needs."""
    findings = [
        *_machine(),
        *_server(),
        *_modules(),
        *_gpus(),
        *_weights(repository),
        *_family(repository),
        *_drafting(repository),
        *_ports(ports),
    ]
    for finding in findings:
        print(finding)
    missing = sum(bool(finding.remedy) and finding.is_needed for finding in findings)
    print(f"{missing} things are missing" if missing else "nothing is missing")
    return 1 if missing else 0


def _machine() -> Iterator[Finding]:
    is_linux = platform.system() == "Linux" and platform.machine() == "x86_64"
    place = f"{platform.system()} {platform.release()} {platform.machine()}"
    yield Finding("machine", place, "" if is_linux else "the server's wheel is for Linux on x86_64")
    name, _, number = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")  # type: ignore[union-attr]
    is_recent = name == "glibc" and tuple(map(int, number.split("."))) >= _GLIBC
    yield Finding("C library", f"{name} {number}", "" if is_recent else "glibc 2.34 or later: Debian 12")
    yield Finding(
        "Python", sys.version.split()[0], "" if sys.version_info >= (3, 11) else f"install {_PYTHONS}"
    )
    for tool in ("gcc", "make"):
        path = shutil.which(tool)
        yield Finding(tool, path or "none", "" if path else f"apt-get install {tool}", is_needed=False)
    yield _processor()
    yield _shared_memory()
    yield _sockets()
    yield _watching()


def _processor() -> Finding:
    found = f"{len(os.sched_getaffinity(0))} cores, {', '.join(cpu_paths())}"
    try:
        path = cpu_path()
    except BadRequest as error:
        return Finding("processor", found, str(error))
    remedy = "without avx2 speech is slow" if path is CpuPath.GENERIC else ""
    return Finding("processor", f"{found}; computes with {path}", remedy, is_needed=False)


def _shared_memory() -> Finding:
    if not _SHARED_MEMORY.is_dir():
        return Finding("shared memory", "none", f"mount a tmpfs on {_SHARED_MEMORY}")
    size = os.statvfs(_SHARED_MEMORY)
    free = size.f_bavail * size.f_frsize // _MIB
    remedy = f"{_SHARED_MEMORY_MIB} MiB or more; with docker: --shm-size=256m"
    return Finding("shared memory", f"{free} MiB free", "" if free >= _SHARED_MEMORY_MIB else remedy)


def _sockets() -> Finding:
    folder = tempfile.gettempdir()
    is_short = len(folder) <= _TEMPORARY_CHARACTERS
    return Finding("temporary folder", folder, "" if is_short else "a shorter TMPDIR: sockets lie there")


def _watching() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError) as error:
        return Finding("process handles", str(error), "Linux 5.3 or later, to notice the death of a model")
    return Finding("process handles", "yes")


def _server() -> Iterator[Finding]:
    wheel = find_wheel()
    if wheel is None:
        binary = shutil.which("tritonserver")
        yield Finding("Triton", binary or "none", "" if binary else "pip install nvidia-pytriton==0.7.0")
        return
    yield Finding("Triton", f"nvidia-pytriton {_version('nvidia-pytriton')} at {wheel.binary}")
    remedy = "" if wheel.stub.is_file() else f"nvidia-pytriton has no backend for it: install {_PYTHONS}"
    yield Finding("Python backend", f"for Python {PYTHON_TAG}", remedy)
    libpython = find_libpython()
    yield Finding("libpython", str(libpython or "none"), "" if libpython else missing_libpython())


def _modules() -> Iterator[Finding]:
    for module, requirement in _MODULES.items():
        is_there = find_spec(module) is not None
        package = requirement.strip("'").partition("==")[0].partition("[")[0]
        yield Finding(
            module,
            _version(package) if is_there else "none",
            "" if is_there else f"pip install {requirement}",
        )


def _gpus() -> Iterator[Finding]:
    """Those that torch finds, and whether attention has its kernel on the one that models take by default."""
    if find_spec("torch") is None:
        return
    # It needs torch, whose absence is to be told here.
    import torch

    from talkahead.backbone.tree_attention import problem_with_kernel

    for number in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(number).total_memory
        yield Finding(f"GPU {number}", f"{torch.cuda.get_device_name(number)}, {memory / _MIB:,.0f} MiB")
    if torch.cuda.device_count():
        problem = problem_with_kernel(torch.device("cuda:0"))
        remedy = "pip install triton==3.7.1, and a C compiler; without it attention reads whole slots"
        yield Finding("attention kernel", problem or "runs", remedy if problem else "", is_needed=False)


def _weights(repository: Path) -> Iterator[Finding]:
    """What the manifests of this repository list, which are its family's own."""
    for model in _MODELS_OF_WEIGHTS:
        folder = repository / model / "1"
        try:
            manifest = Manifest.read(folder)
        except (ArtifactMismatch, ValueError, TypeError) as error:
            yield Finding(f"{model}/1/{MANIFEST}", "none", f"give --repository ({error})")
            continue
        for name in manifest.files:
            path = folder / name
            found = f"{path.stat().st_size / _MIB:.1f} MiB" if path.is_file() else "none"
            remedy = f"fetch the file from where the others came from, or: {manifest.command}"
            yield Finding(f"{model}/1/{name}", found, "" if path.is_file() else remedy)


def _family(repository: Path) -> Iterator[Finding]:
    """Whether its frontend has what it needs: files, and packages that other families do without."""
    vocoder = repository / "vocoder" / "1"
    if not (vocoder / FORMAT).is_file():
        return
    try:
        # It needs packages whose absence is to be told here.
        from talkahead.families.registry import load_family

        speech = SpeechFormat.read(vocoder)
        load_family(speech.family).frontend(repository / "frontend" / "1", speech)
    except (ImportError, TalkaheadError) as error:
        yield Finding("family", "cannot be loaded", str(error))
    else:
        yield Finding("family", speech.family)


def _drafting(repository: Path) -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    # It needs torch, whose absence is to be told here.
    from talkahead.serving.draft_report import draft_report

    try:
        yield Finding("drafting ahead", "\n      ".join(draft_report(repository / "talker" / "1")))
    except TalkaheadError as error:
        yield Finding("drafting ahead", "unknown", str(error), is_needed=False)


def _ports(ports: tuple[int, ...]) -> Iterator[Finding]:
    for port in ports:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                yield Finding(f"port {port}", str(error), "choose another, or 0 for a free one")
            else:
                yield Finding("port", f"{listener.getsockname()[1]} is free")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown version"
