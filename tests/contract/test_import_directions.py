"""Lower rooms never import higher ones, wherever in a file the import stands."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_FOLDERS = ("model_repository", "instruments", "perf", "training", "build_engines", "deploy")
SOURCES = {
    "talkahead": ROOT / "python_backends" / "talkahead",
    "talkahead_client": ROOT / "clients" / "talkahead_client",
    "talkahead_gateway": ROOT / "gateway" / "talkahead_gateway",
    **{room: ROOT / room for room in OWN_FOLDERS},
}
_SHARED = {"talkahead", "talkahead_client", "instruments"}
MAY_IMPORT: dict[str, set[str]] = {
    "talkahead": set(),
    "talkahead_client": set(),
    "talkahead_gateway": {"talkahead_client"},
    "model_repository": {"talkahead"},
    "instruments": _SHARED - {"instruments"},
    "perf": _SHARED,
    "training": _SHARED,
    "build_engines": _SHARED,
    "deploy": set(),
}
"""What a room may import beside itself."""
MAY_START = {"talkahead.launcher.gateway_command": {"talkahead_gateway"}}
"""What a single module may import beyond that, to run another room's command."""
LAYERS = (
    {
        *("", "types", "config", "errors", "telemetry", "private_folder", "cache_places"),
        *("cpu_path", "native_declarations", "native_library", "manifest", "weights", "speech_format"),
        "generation_config",
    },
    {"speculation", "text", "audio", "transport"},
    {"backbone"},
    {"drafting", "families"},
    {"engine"},
    {"draft_training"},
    {"serving"},
    {"launcher", "__main__"},
)
"""Rooms and modules of the package, the lowest first; the package itself, which is empty, has no name."""
PURE = {"numpy", "torch"}
"""All that `speculation` needs of others."""
WEIGHTS = {"talkahead.weights", "talkahead.manifest"}

Graph = Mapping[str, set[str]]
"""What each module imports: modules of the repository, and others by the name that is imported."""


def read_graph() -> Graph:
    files = {
        _module(room, path.relative_to(folder)): path
        for room, folder in SOURCES.items()
        for path in folder.rglob("*.py")
    }
    return {name: set(_imports(path.read_text(encoding="utf-8"), files)) for name, path in files.items()}


def _module(room: str, path: Path) -> str:
    return ".".join((room, *path.with_suffix("").parts)).removesuffix(".__init__")


def _imports(source: str, modules: Iterable[str]) -> Iterator[str]:
    """Those within functions and under `TYPE_CHECKING` as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "imports are absolute here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def wrong_rooms(graph: Graph) -> list[str]:
    """Imports of a room that the importing one may not use."""
    return [
        f"{name} imports {other}"
        for name, other in _pairs(graph)
        if _room(other) not in {_room(name), *MAY_IMPORT[_room(name)], *MAY_START.get(name, set())}
    ]


def wrong_layers(graph: Graph) -> list[str]:
    """Imports of a higher layer within the package."""
    return [
        f"{name} imports {other}"
        for name, other in _pairs(graph)
        if _room(name) == _room(other) == "talkahead" and _layer(name) < _layer(other)
    ]


def impure(graph: Graph) -> list[str]:
    """What `speculation` imports beside pure tensors, the standard library and rooms without weights."""
    return [
        f"{name} imports {other}"
        for name, others in graph.items()
        if _part(name) == "talkahead.speculation"
        for other in others
        if other in WEIGHTS or _room(other) not in {"talkahead", *PURE, *sys.stdlib_module_names}
    ]


def cycle(graph: Graph, group: Callable[[str], str] = str) -> list[str]:
    """Modules, or groups of them, that import each other, or nothing."""
    groups: dict[str, set[str]] = {group(name): set() for name in graph}
    for name, other in _pairs(graph):
        if group(name) != group(other):
            groups[group(name)].add(group(other))
    try:
        TopologicalSorter(groups).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _pairs(graph: Graph) -> Iterator[tuple[str, str]]:
    """Importing and imported modules of the repository."""
    for name, others in sorted(graph.items()):
        for other in sorted(others):
            if _room(other) in SOURCES and other != name:
                yield name, other


def _room(module: str) -> str:
    return module.partition(".")[0]


def _part(module: str) -> str:
    """A room, or one within the package."""
    return ".".join(module.split(".")[:2]) if _room(module) == "talkahead" else _room(module)


def _layer(module: str) -> int:
    part = _part(module).removeprefix("talkahead").removeprefix(".")
    levels = [level for level, parts in enumerate(LAYERS) if part in parts]
    assert len(levels) == 1, f"{part} has {len(levels)} places in LAYERS"
    return levels[0]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return read_graph()


def test_every_room_is_read(graph: Graph) -> None:
    assert {_room(name) for name in graph} == set(SOURCES) == set(MAY_IMPORT)
    assert len(graph) > 250
    assert "model_repository.talker.1.model" in graph
    assert {_layer(name) for name in graph if _room(name) == "talkahead"} == set(range(len(LAYERS)))


def test_rooms_import_only_what_they_may(graph: Graph) -> None:
    assert wrong_rooms(graph) == []


def test_lower_layers_never_import_higher_ones(graph: Graph) -> None:
    assert wrong_layers(graph) == []


def test_speculation_is_pure(graph: Graph) -> None:
    assert impure(graph) == []


def test_the_engine_knows_messages_and_no_sockets(graph: Graph) -> None:
    known = {other for name in graph if _part(name) == "talkahead.engine" for other in graph[name]}
    assert {one for one in known if _part(one) == "talkahead.transport"} == {"talkahead.transport.messages"}


def test_nothing_imports_itself_in_a_circle(graph: Graph) -> None:
    assert cycle(graph) == []
    assert cycle(graph, _part) == []


def test_hidden_imports_count() -> None:
    source = (
        "if TYPE_CHECKING:\n    from perf import report\n"
        "def late():\n    import training.export\n    from perf.load import Load\n"
    )
    found = set(_imports(source, ["perf.report", "perf.load"]))
    assert found == {"perf.report", "training.export", "perf.load"}


@pytest.mark.parametrize(
    ("check", "name", "other"),
    [
        (wrong_rooms, "perf.load", "training.export"),
        (wrong_rooms, "training.samples", "perf.load"),
        (wrong_rooms, "build_engines.calibrate", "training.export"),
        (wrong_rooms, "instruments.report", "perf.load"),
        (wrong_rooms, "talkahead_client.wire", "talkahead.types"),
        (wrong_rooms, "talkahead.types", "talkahead_client.wire"),
        (wrong_rooms, "talkahead.launcher.command", "talkahead_gateway.command"),
        (wrong_rooms, "talkahead_gateway.servers", "talkahead.types"),
        (wrong_rooms, "talkahead_gateway.servers", "perf.load"),
        (wrong_rooms, "talkahead_client.wire", "talkahead_gateway.servers"),
        (wrong_rooms, "model_repository.talker.1.model", "talkahead_client"),
        (wrong_layers, "talkahead.config", "talkahead.speculation.pairs"),
        (wrong_layers, "talkahead.audio.noise", "talkahead.backbone.llama"),
        (wrong_layers, "talkahead.backbone.llama", "talkahead.families.some"),
        (wrong_layers, "talkahead.engine.stream", "talkahead.serving"),
        (impure, "talkahead.speculation.draws", "safetensors.torch"),
        (impure, "talkahead.speculation.draws", "talkahead.weights"),
        (cycle, "talkahead.weights", "talkahead.drafting.draft_artifact"),
    ],
)
def test_a_bad_import_is_told(
    graph: Graph, check: Callable[[Graph], list[str]], name: str, other: str
) -> None:
    found = check({**graph, name: graph[name] | {other}})
    assert {name, other} <= set(" ".join(found).split())


def test_rooms_may_not_meet_in_a_circle_though_their_modules_do_not() -> None:
    graph = {"perf.a": {"training.a"}, "training.a": set(), "training.b": {"perf.b"}, "perf.b": set()}
    assert cycle(graph) == []
    assert set(cycle(graph, _part)) == {"perf", "training"}
