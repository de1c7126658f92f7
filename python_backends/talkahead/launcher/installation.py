"""Finds the Triton server on this machine and what it needs to run this package in its Python models.

The wheel `nvidia-pytriton` carries NVIDIA's server, the Python backend, and one backend process ("stub") for
each Python version, but not in the shape that the server wants; `prepare` makes it, a folder of links.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import talkahead
from talkahead.config import child_environment
from talkahead.errors import LaunchError
from talkahead.launcher.plain_names import PlainNames, is_plain

STUB = "triton_python_backend_stub"
PYTHON_TAG = f"{sys.version_info.major}.{sys.version_info.minor}"
SOURCE_ROOT = Path(talkahead.__file__).resolve().parent.parent
"""The folder that holds the package, which need not be installed."""


@dataclass(frozen=True)
class Installation:
    """A server to run: binary, folder of backends (None: where the binary looks itself), environment."""

    binary: Path
    backends: Path | None
    environment: dict[str, str]


@dataclass(frozen=True)
class Wheel:
    """The parts of `nvidia-pytriton` that lie in site-packages."""

    server: Path
    """The folder `pytriton/tritonserver`."""
    libraries: Path

    @property
    def binary(self) -> Path:
        return self.server / "bin" / "tritonserver"

    @property
    def stub(self) -> Path:
        return self.server / "python_backend_stubs" / PYTHON_TAG / STUB

    @property
    def python_backend(self) -> Path:
        return self.server / "backends" / "python"


def find_wheel() -> Wheel | None:
    spec = find_spec("pytriton")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return Wheel(folder / "tritonserver", folder.parent / "nvidia_pytriton.libs")


def find_libpython() -> Path | None:
    """The shared library of the running Python, which the stub loads.

    Debian ships it apart from the interpreter; where it is missing, `make` unpacks it into the virtual
    environment.
    """
    name = str(sysconfig.get_config_var("INSTSONAME") or "")
    if ".so" not in name:
        name = f"libpython{PYTHON_TAG}.so.1.0"
    for folder in _library_folders():
        if (folder / name).is_file():
            return folder / name
    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    return Path(name)


def _library_folders() -> Iterator[Path]:
    yield Path(sys.prefix) / "lib"
    folder = sysconfig.get_config_var("LIBDIR")
    if folder:
        yield Path(folder)
        yield Path(folder) / str(sysconfig.get_config_var("MULTIARCH") or "")
    yield Path(sys.base_prefix) / "lib"


def prepare(names: PlainNames, binary: Path | None = None) -> Installation:
    """An installation that can start: `binary`, else the wheel, else `tritonserver` on the PATH.

    Args:
        names: their folder is empty, and in use as long as the server runs.
        binary: a tritonserver with its own backends, as in NVIDIA's container.
    """
    wheel = find_wheel()
    if binary is None and wheel is not None:
        return _from_wheel(wheel, names)
    found = binary or shutil.which("tritonserver")
    if found is None or not os.access(found, os.X_OK):
        raise LaunchError(
            f"no Triton server: {found or 'tritonserver'} is no program on this machine; install the wheel "
            "(pip install nvidia-pytriton==0.7.0) or give --tritonserver"
        )
    return Installation(Path(found), None, child_environment({}))


def _from_wheel(wheel: Wheel, names: PlainNames) -> Installation:
    if not wheel.stub.is_file():
        versions = sorted(path.name for path in wheel.stub.parent.parent.glob("*"))
        raise LaunchError(
            f"nvidia-pytriton has no backend for Python {PYTHON_TAG}; it has {', '.join(versions)}"
        )
    libpython = find_libpython()
    if libpython is None:
        raise LaunchError(missing_libpython())
    backend = names.folder / "backends" / "python"
    backend.mkdir(parents=True)
    for source in (*wheel.python_backend.glob("*.so"), *wheel.python_backend.glob("*.py"), wheel.stub):
        (backend / source.name).symlink_to(source)
    # The models get this very package, also where it runs from a checkout that is not installed.
    (backend / "talkahead").symlink_to(Path(talkahead.__file__).parent)
    libraries = [names.of(wheel.libraries, "libraries")]
    if libpython.is_absolute():
        libraries.append(names.of(libpython.parent, "libpython"))
    environment = child_environment(
        {
            # The interpreter in the stub ignores PYTHONPATH and PYTHONHOME. It takes the first python3 on
            # the PATH for itself, and so the virtual environment around that one.
            "PATH": str(_interpreter(names)),
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        }
    )
    return Installation(wheel.binary, backend.parent, environment)


def _interpreter(names: PlainNames) -> Path:
    """The folder of a python3 that finds its standard library and its packages under plain names."""
    if is_plain(Path(sys.prefix)) and is_plain(Path(sys.base_prefix)):
        return Path(sys.executable).parent
    base = names.of(Path(sys.base_prefix), "python")
    if sys.prefix == sys.base_prefix:
        return base / "bin"
    return _twin_environment(names.folder / "environment", base)


def _twin_environment(folder: Path, base: Path) -> Path:
    """Where python3 lies of a virtual environment like the running one, whose Python lies in `base`."""
    own = Path(sys.prefix)
    settings = (own / "pyvenv.cfg").read_text(encoding="utf-8")
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").symlink_to(base / "bin" / f"python{PYTHON_TAG}")
    (folder / "pyvenv.cfg").write_text(
        re.sub("(?m)^home *=.*$", f"home = {base}/bin", settings), encoding="utf-8"
    )
    for libraries in own.glob("lib*"):
        (folder / libraries.name).symlink_to(libraries)
    return folder / "bin"


def missing_libpython() -> str:
    return (
        f"libpython{PYTHON_TAG}.so.1.0 is missing, which Triton's Python backend loads; Debian and Ubuntu: "
        f"apt-get install libpython{PYTHON_TAG}"
    )
