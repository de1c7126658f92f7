"""The door stands alone: the client, and what the extra `gateway` installs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import talkahead_gateway

ALLOWED = {
    "av",
    "google",
    "grpc",
    "numpy",
    "prometheus_client",
    "starlette",
    "talkahead_client",
    "talkahead_gateway",
    "uvicorn",
}


def test_imports_nothing_else() -> None:
    modules = sorted(Path(talkahead_gateway.__file__).parent.glob("*.py"))
    assert len(modules) > 10
    names = {
        name.partition(".")[0]
        for path in modules
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert names - set(sys.stdlib_module_names) == ALLOWED
