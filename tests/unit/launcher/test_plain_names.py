"""Triton is handed no name that it cannot take, wherever folders lie."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from talkahead.errors import LaunchError
from talkahead.launcher import plain_names
from talkahead.launcher.plain_names import PlainNames, is_plain, plain_folder


@pytest.mark.parametrize("name", ["my clone", "clône", "a:b", "it's", "$HOME", "a;b", "two\nlines"])
def test_a_folder_with_an_odd_name_gets_another(name: str, tmp_path: Path) -> None:
    odd = tmp_path / name
    odd.mkdir()
    names = PlainNames(tmp_path)
    plain = names.of(odd, "models")
    assert is_plain(plain) and plain.samefile(odd)
    assert names.of(odd, "models") == plain
    assert names.undone(f"no file {plain}/talker") == f"no file {odd}/talker"


def test_a_plain_name_stays(tmp_path: Path) -> None:
    assert PlainNames(tmp_path).of(Path("/usr/lib/python3.11"), "python") == Path("/usr/lib/python3.11")
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_lies_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert plain_folder("talkahead-").parent == tmp_path


def test_unless_that_has_an_odd_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd, closed, plain = (tmp_path / name for name in ("my tmp", "closed", "plain"))
    for folder in (odd, plain):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    monkeypatch.setattr(plain_names, "_PLACES", (str(closed), str(plain)))
    assert plain_folder("talkahead-").parent == plain
    monkeypatch.setattr(plain_names, "_PLACES", (str(closed),))
    with pytest.raises(LaunchError, match=f"{odd} has not, .* write into {closed}; set TMPDIR"):
        plain_folder("talkahead-")
