"""What is read or written as text names its encoding: within Triton's Python backend the default is ASCII.

ruff's rule (PLW1514) sees that only where it can tell a path, and knows nothing of programs' output.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    *("python_backends", "model_repository", "clients", "gateway"),
    *("build_engines", "instruments", "perf", "training"),
)
_READ_OR_WRITTEN = {"read_text", "write_text"}
_OPENED = {"open", "fdopen", "TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile"}
_TEXT_OF_A_PROGRAM = {"text", "universal_newlines"}
_TEXT_MODES = {mode + more for mode in "rwax" for more in ("", "t", "+", "+t", "t+")}


def without_encoding(source: str) -> Iterator[int]:
    """Lines that call for text in whatever encoding is the default."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _takes_text(node) and not _names_encoding(node):
            yield node.lineno


def _names_encoding(call: ast.Call) -> bool:
    return any(keyword.arg == "encoding" for keyword in call.keywords)


def _takes_text(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _READ_OR_WRITTEN:
        return True
    if name in _OPENED:
        given = (*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode"))
        is_plain = isinstance(call.func, ast.Name) and name == "open" and len(given) < 2
        return is_plain or any(isinstance(one, ast.Constant) and one.value in _TEXT_MODES for one in given)
    true = {keyword.arg for keyword in call.keywords if getattr(keyword.value, "value", None) is True}
    return bool(true & _TEXT_OF_A_PROGRAM)


@pytest.mark.parametrize("room", ROOMS)
def test_every_text_names_its_encoding(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        for line in without_encoding(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "call",
    [
        "path.read_text()",
        "self._path.write_text(text)",
        "open(path)",
        "open(path, mode='w')",
        "path.open('r')",
        "path.open(mode='a+')",
        "os.fdopen(number, 'w')",
        "tempfile.NamedTemporaryFile('w', dir=folder)",
        "subprocess.run(command, text=True)",
        "Popen(command, universal_newlines=True)",
    ],
)
def test_the_default_is_found(call: str) -> None:
    assert list(without_encoding(call)) == [1]


@pytest.mark.parametrize(
    "call",
    [
        "path.read_text(encoding='utf-8')",
        "open(path, 'rb')",
        "path.open('wb')",
        "wave.open(str(path))",
        "os.open(path, os.O_WRONLY)",
        "subprocess.run(command, encoding='utf-8', errors='replace')",
        "subprocess.run(command, capture_output=True)",
        "Request(text=words)",
    ],
)
def test_bytes_and_named_encodings_pass(call: str) -> None:
    assert not list(without_encoding(call))
