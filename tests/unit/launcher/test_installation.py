from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from talkahead.errors import LaunchError
from talkahead.launcher import installation
from talkahead.launcher.installation import PYTHON_TAG, STUB, Wheel, prepare
from talkahead.launcher.plain_names import PlainNames


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel with a server, a backend and a stub for the running Python."""
    wheel = Wheel(tmp_path / "tritonserver", tmp_path / "nvidia_pytriton.libs")
    for path in (
        wheel.binary,
        wheel.stub,
        wheel.python_backend / "libtriton_python.so",
        wheel.python_backend / "triton_python_backend_utils.py",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.setattr(installation, "find_wheel", lambda: wheel)
    monkeypatch.setattr(installation, "find_libpython", lambda: Path("/python/lib/libpython3.so"))
    return wheel


def test_the_wheel_gets_the_shape_that_the_server_wants(wheel: Wheel, tmp_path: Path) -> None:
    prepared = prepare(PlainNames(tmp_path / "runtime"))
    assert prepared.binary == wheel.binary and prepared.backends is not None
    backend = prepared.backends / "python"
    names = {path.name for path in backend.iterdir()}
    assert names == {"libtriton_python.so", "triton_python_backend_utils.py", STUB, "talkahead"}
    assert (backend / STUB).resolve() == wheel.stub and (backend / "talkahead" / "errors.py").is_file()
    assert prepared.environment["LD_LIBRARY_PATH"].startswith(f"{wheel.libraries}:/python/lib")
    # That of the environment, or, where its name is not plain, of one like it.
    python = Path(prepared.environment["PATH"].split(":")[0]) / "python3"
    assert python.samefile(sys.executable)


def test_python_finds_everything_under_plain_names(
    wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own library too, where it lies in such a folder: a virtual environment says where in a file."""
    environment, python = tmp_path / "my clône", tmp_path / "pythôn"
    venv.create(environment, symlinks=True)
    python.symlink_to(sys.base_prefix)
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "base_prefix", str(python))
    folder = tmp_path / "runtime"
    prepared = prepare(PlainNames(folder))
    assert str(python) not in prepared.environment["LD_LIBRARY_PATH"]
    asked = "import sys, sysconfig; print(sys.prefix, sys.base_prefix, sysconfig.get_path('purelib'))"
    python3 = Path(prepared.environment["PATH"].split(":")[0]) / "python3"
    said = subprocess.run([python3, "-c", asked], capture_output=True, text=True, check=True).stdout
    prefix, base_prefix, packages = said.split()
    assert Path(prefix).parent == folder and Path(base_prefix) == folder / "python"
    assert Path(packages).is_relative_to(folder)
    assert Path(packages).resolve().is_relative_to(environment)


def test_a_given_server_is_left_as_it_is(wheel: Wheel, tmp_path: Path) -> None:
    prepared = prepare(PlainNames(tmp_path / "runtime"), Path(sys.executable))
    assert prepared.binary == Path(sys.executable) and prepared.backends is None
    assert not (tmp_path / "runtime").exists()


def test_what_is_missing_is_named(wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError, match="is no program on this machine"):
        prepare(PlainNames(tmp_path / "runtime"), tmp_path / "nothing")
    monkeypatch.setattr(installation, "find_libpython", lambda: None)
    with pytest.raises(LaunchError, match=f"apt-get install libpython{PYTHON_TAG}"):
        prepare(PlainNames(tmp_path / "runtime"))
    wheel.stub.rename(wheel.stub.parent.with_name("2.7"))
    with pytest.raises(LaunchError, match=f"no backend for Python {PYTHON_TAG}; it has .*2.7"):
        prepare(PlainNames(tmp_path / "runtime"))


def test_without_wheel_and_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_wheel", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="pip install nvidia-pytriton"):
        prepare(PlainNames(tmp_path / "runtime"))
