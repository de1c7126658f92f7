"""What Python hands to C is what the C sources declare."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import talkahead
from talkahead import native_declarations
from talkahead.native_declarations import files_of, functions, layout_checks, native_struct
from talkahead.native_library import NativeUnavailable, load_library

SOURCES = sorted(Path(talkahead.__file__).parent.rglob("native/*.c"))
HEADER = """
#include <stdint.h>
enum colour { RED, GREEN };
struct unknown;
/* struct commented { int x; }; */
struct inner {
    int is_there;  /* ; */
    const double *values, *others;
};
"""
SOURCE = """
#include "parts.h"
struct outer {
    int64_t FIRST, SECOND;
    struct inner inner; // held
    const struct inner *more;
    struct unknown *far;
    double weight;
};
static int64_t hidden(int64_t x) { return x; }
int64_t tell(const struct outer *outer, enum colour colour,
             double *out) {
    out[0] = outer->weight * outer->more[1].values[0];
    return hidden(100 * outer->first + 10 * outer->second + outer->inner.is_there + colour);
}
void nothing(void) {}
"""


@pytest.fixture(autouse=True)
def empty_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load_library.cache_clear()
    yield
    load_library.cache_clear()


def written(folder: Path, first: str = "first", second: str = "second") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "parts.h").write_text(HEADER)
    source = folder / "whole.c"
    source.write_text(SOURCE.replace("FIRST", first).replace("SECOND", second))
    return source


def told(source: Path) -> tuple[int, float]:
    """What C sees of a struct that is made by names."""
    Inner, Outer = native_struct(source, "inner"), native_struct(source, "outer")
    values, out = (ctypes.c_double * 1)(0.5), (ctypes.c_double * 1)()
    parts = [Inner(is_there=one, values=ctypes.addressof(values), others=None) for one in (3, 4)]
    fields = {
        "first": 1,
        "second": 2,
        "inner": parts[0],
        "more": (Inner * 2)(*parts),
        "far": None,
        "weight": 8,
    }
    whole = load_library(source).tell(ctypes.byref(Outer(**fields)), 5, ctypes.addressof(out))
    return whole, out[0]


def test_structs_lie_as_c_declares_them_in_whatever_order(tmp_path: Path) -> None:
    assert told(written(tmp_path / "one")) == (128, 4.0)
    swapped = written(tmp_path / "two", first="second", second="first")
    assert told(swapped) == (128, 4.0)
    fields = [name for name, _ in native_struct(swapped, "outer")._fields_]
    assert fields == ["second", "first", "inner", "more", "far", "weight"]


@pytest.mark.parametrize("swap", [("is_there", "values"), ("values", "others")])
def test_a_misread_order_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: tuple[str, str]
) -> None:
    read = native_declarations._struct
    one, other = swap

    def misread(name: str, declared: list[native_declarations._Declared]) -> type:
        places = {field.name: place for place, field in enumerate(declared)}
        if one in places:
            declared[places[one]], declared[places[other]] = declared[places[other]], declared[places[one]]
        return read(name, declared)

    monkeypatch.setattr(native_declarations, "_struct", misread)
    with pytest.raises(NativeUnavailable, match=f"struct inner: ({one}|{other})"):
        load_library(written(tmp_path / "three"))


def test_all_fields_are_told_and_no_others(tmp_path: Path) -> None:
    Inner = native_struct(written(tmp_path), "inner")
    with pytest.raises(TypeError, match=r"struct inner: .*: others, values$"):
        Inner(is_there=1)
    with pytest.raises(TypeError, match=r"struct inner: .*: many$"):
        Inner(is_there=1, values=None, others=None, many=2)
    with pytest.raises(TypeError, match="positional"):
        Inner(1, None, None)


def test_who_includes_a_header_shares_its_structs(tmp_path: Path) -> None:
    source = written(tmp_path)
    assert native_struct(source, "inner") is native_struct(tmp_path / "parts.h", "inner")
    with pytest.raises(AssertionError, match="knows no struct unknown"):
        native_struct(source, "unknown")


def test_a_file_that_is_reached_by_a_link_is_the_same_file(tmp_path: Path) -> None:
    """As servers reach the package."""
    source = written(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    linked = tmp_path / "link" / source.name
    assert native_struct(linked, "outer") is native_struct(source, "outer")
    assert native_struct(linked, "inner") is native_struct(tmp_path / "parts.h", "inner")


@pytest.mark.parametrize("field", ["float x;", "int64_t x[3];", "int64_t **x;", "struct absent x;"])
def test_what_is_not_understood_is_refused(tmp_path: Path, field: str) -> None:
    source = tmp_path / "odd.c"
    source.write_text(f"struct odd {{\n    {field}\n}};\n")
    with pytest.raises(ValueError, match="not understood"):
        native_struct(source, "odd")


def test_only_what_is_defined_can_be_called_and_with_its_types(tmp_path: Path) -> None:
    library = load_library(written(tmp_path))
    assert [one.name for one in functions(tmp_path / "whole.c")] == ["tell", "nothing"]
    with pytest.raises(AttributeError):
        library.hidden  # noqa: B018
    with pytest.raises(ctypes.ArgumentError):
        library.tell(None, "red", None)
    with pytest.raises(TypeError, match="3 arguments"):
        library.tell(None)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_all_that_is_exported_has_types_and_every_struct_is_checked(source: Path) -> None:
    """As the linker lists it, and as the sources name it."""
    library = load_library(source)
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(library.path)], capture_output=True, text=True, check=True
    ).stdout.split()[2::3]
    known = [one.name for one in functions(source)]
    assert sorted(known) == sorted(one for one in symbols if one.startswith("talkahead_"))
    text = "\n".join(path.read_text() for path in files_of(source))
    for name in known:
        (defined,) = re.findall(rf"^\w+ {name}\((.*?)\) \{{", text, re.MULTILINE | re.DOTALL)
        for struct in re.findall(r"struct (\w+) \*", defined):
            assert f"sizeof(struct {struct})" in layout_checks(source)
