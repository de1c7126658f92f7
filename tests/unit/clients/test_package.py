"""The package stands alone: numpy, tritonclient, and the gRPC that tritonclient brings."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import talkahead_client

ALLOWED = {"grpc", "numpy", "talkahead_client", "tritonclient"}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            yield node.module


def test_imports_nothing_else() -> None:
    modules = sorted(Path(talkahead_client.__file__).parent.glob("*.py"))
    assert len(modules) > 10
    roots = {name.partition(".")[0] for path in modules for name in _imported(path)}
    assert roots - set(sys.stdlib_module_names) == ALLOWED


def test_what_is_public_is_listed_and_sorted() -> None:
    assert talkahead_client.__all__ == sorted(talkahead_client.__all__)
    assert all(hasattr(talkahead_client, name) for name in talkahead_client.__all__)
