"""What C sources declare, as ctypes has it: read from the sources, which alone say it.

Structs that exported functions take, or that lie within these, are asserted to be laid out as read here where
the library is compiled (`layout_checks`): a declaration that is misread does not compile.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRUCT = r"^struct {name} \{{([^{{}}]*)\}};"
_FUNCTION = re.compile(r"^(void|int|int64_t) (\w+)\(([^()]*)\) \{", re.MULTILINE)
_DECLARATION = re.compile(r"(?:const )?((?:struct |enum )?\w+) (.+)", re.DOTALL)
_DECLARATOR = re.compile(r"(\*?)(\w+)")
_NUMBERS: dict[str, Any] = {
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double,
}


class NativeStruct(ctypes.Structure):
    """A C struct, made with all of its fields, by name."""

    names: ClassVar[frozenset[str]]
    structs: ClassVar[tuple[type[NativeStruct], ...]]
    """That it holds or points at."""

    def __init__(self, **fields: object) -> None:
        if fields.keys() != self.names:
            wrong = ", ".join(sorted(fields.keys() ^ self.names))
            raise TypeError(f"struct {type(self).__name__}: fields that are missing or unknown: {wrong}")
        super().__init__(**fields)


@dataclass(frozen=True)
class Function:
    """What ctypes must know of an exported function."""

    name: str
    result: Any
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Declared:
    """A field or an argument. `struct`: that it holds or points at, where its fields are known."""

    name: str
    kind: Any
    struct: type[NativeStruct] | None


def files_of(source: Path) -> list[Path]:
    """The source and all headers of ours that it includes, wherever they lie."""
    files = [source.resolve()]
    for path in files:  # which grows meanwhile
        names = _INCLUDE.findall(path.read_text(encoding="utf-8"))
        included = ((path.parent / name).resolve() for name in names)
        files += [header for header in included if header.is_file() and header not in files]
    return files


def native_struct(source: Path, name: str) -> type[NativeStruct]:
    """`struct name` as a C file, or a header that it includes, declares it: one class for all."""
    found = _find_struct(source, name)
    assert found is not None, f"{source} knows no struct {name}"
    return found


def functions(source: Path) -> Iterator[Function]:
    """What the C file and its headers define and export."""
    for path in files_of(source):
        for result, name, listed in _FUNCTION.findall(_text(path)):
            own = [] if listed == "void" else listed.split(",")
            arguments = tuple(declared.kind for one in own for declared in _declared(source, one))
            yield Function(name, _NUMBERS.get(result), arguments)


def layout_checks(source: Path) -> str:
    """Assertions in C, for after the source's text."""
    checks = (one for struct in _structs_of(source) for one in _layout(struct))
    return "".join(f'_Static_assert({check}, "{what}");\n' for what, check in checks)


def _layout(struct: type[NativeStruct]) -> Iterator[tuple[str, str]]:
    """What each check is about, and the check."""
    own = f"struct {struct.__name__}"
    yield own, f"sizeof({own}) == {ctypes.sizeof(struct)}"
    for name in sorted(struct.names):
        field = getattr(struct, name)
        yield f"{own}: {name}", f"__builtin_offsetof({own}, {name}) == {field.offset}"
        yield f"{own}: {name}", f"sizeof((({own} *)0)->{name}) == {field.size}"


def _structs_of(source: Path) -> list[type[NativeStruct]]:
    """That exported functions take, and those within."""
    texts = (one for path in files_of(source) for _, _, one in _FUNCTION.findall(_text(path)))
    taken = (one for listed in texts if listed != "void" for one in listed.split(","))
    found = [one.struct for text in taken for one in _declared(source, text) if one.struct]
    for struct in found:  # which grows meanwhile
        found += [one for one in struct.structs if one not in found]
    return list(dict.fromkeys(found))


def _find_struct(source: Path, name: str) -> type[NativeStruct] | None:
    """None: it is declared nowhere, or without its fields. A file is one file, by whatever links it is named:
    servers run the package through one."""
    return _find_struct_in(source.resolve(), name)


@lru_cache(maxsize=256)
def _find_struct_in(source: Path, name: str) -> type[NativeStruct] | None:
    for path in files_of(source):
        match = re.search(_STRUCT.format(name=name), _text(path), re.MULTILINE)
        if match and path != source:
            return _find_struct_in(path, name)
        if match:
            return _struct(name, [one for text in match[1].split(";") for one in _declared(source, text)])
    return None


def _struct(name: str, declared: list[_Declared]) -> type[NativeStruct]:
    body = {
        "_fields_": [(one.name, one.kind) for one in declared],
        "names": frozenset(one.name for one in declared),
        "structs": tuple(one.struct for one in declared if one.struct),
    }
    return type(name, (NativeStruct,), body)


def _declared(source: Path, text: str) -> Iterator[_Declared]:
    """What a declaration such as `const float *x, *y` names; raises ValueError where it cannot be read."""
    text = text.strip()
    if not text:
        return
    match = _DECLARATION.fullmatch(text)
    declarators = [_DECLARATOR.fullmatch(one.strip()) for one in match[2].split(",")] if match else [None]
    for declarator in declarators:
        if match is None or declarator is None:
            raise ValueError(f"{source}: this declaration is not understood: {text}")
        struct = _find_struct(source, match[1][7:]) if match[1].startswith("struct ") else None
        pointer = ctypes.c_void_p if struct is None else ctypes.POINTER(struct)
        kind = pointer if declarator[1] else struct or _NUMBERS.get(re.sub("enum .+", "int", match[1]))
        if kind is None:
            raise ValueError(f"{source}: this type is not understood: {match[1]}")
        yield _Declared(declarator[2], kind, struct)


@lru_cache(maxsize=64)
def _text(path: Path) -> str:
    return _COMMENT.sub("", path.read_text(encoding="utf-8"))
