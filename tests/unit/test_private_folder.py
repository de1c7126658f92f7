"""A folder is ours alone, or it is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from talkahead.private_folder import private_folder


def test_a_missing_folder_is_made_for_us_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "some" / "where")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_folder(folder) == folder


@pytest.mark.parametrize(
    ("mode", "may_be_seen"), [(0o777, True), (0o720, True), (0o755, False), (0o701, False)]
)
def test_a_folder_that_is_open_to_others_is_refused(tmp_path: Path, mode: int, may_be_seen: bool) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    with pytest.raises(PermissionError, match=f"open to others .mode {mode:o}"):
        private_folder(tmp_path / "open", may_be_seen=may_be_seen)


def test_others_may_look_where_that_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    assert private_folder(tmp_path / "open", may_be_seen=True)


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(NotADirectoryError, match="is a link"):
        private_folder(tmp_path / "link")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        private_folder(tmp_path / "file")


def test_another_user_s_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    owner = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: owner + 1)
    with pytest.raises(PermissionError, match=f"belongs to user {owner}, not to {owner + 1}"):
        private_folder(theirs)
