"""Folders of this user alone, in places where others may write too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_WRITTEN_BY_OTHERS = 0o022
_SEEN_BY_OTHERS = 0o077


def private_folder(folder: Path, *, may_be_seen: bool = False) -> Path:
    """The folder, made if it is missing. Raises OSError unless it is ours and others keep out of it.

    Args:
        may_be_seen: others may read it, but not write into it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()  # not what a link points to: whoever made the link chose that
    forbidden = _WRITTEN_BY_OTHERS if may_be_seen else _SEEN_BY_OTHERS
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is a link, not a folder")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to user {found.st_uid}, not to {os.getuid()}")
    if found.st_mode & forbidden:
        raise PermissionError(f"{folder} is open to others (mode {stat.S_IMODE(found.st_mode):o})")
    return folder
