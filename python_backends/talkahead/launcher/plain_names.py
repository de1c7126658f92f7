"""Names of folders that Triton can take: it starts the processes of Python models by a shell command without
quotes, Python in them knows no name outside ASCII, and lists of folders are cut at colons.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path

from talkahead.errors import LaunchError

_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
"""Where a folder may lie that cannot lie in the temporary folder. Triton writes into the last in any case."""


def is_plain(path: Path) -> bool:
    """Triton can take the name as it is."""
    return _PLAIN.fullmatch(str(path)) is not None


def plain_folder(prefix: str) -> Path:
    """A new folder of this user alone, with a plain name."""
    temporary = tempfile.gettempdir()
    for place in filter(is_plain, map(Path, (temporary, *_PLACES))):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    raise LaunchError(
        "no folder for the server's own files: Triton needs a name of ASCII letters, digits and _./+- alone, "
        f"which the temporary folder {temporary} has not, and this user may not write into "
        f"{' or '.join(_PLACES)}; set TMPDIR to a folder with such a name"
    )


class PlainNames:
    """Further names for folders whose own Triton cannot take: links in a folder with a plain name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._links: dict[Path, Path] = {}

    def of(self, path: Path, role: str) -> Path:
        """A plain name of a folder, its own where that will do; `role` tells its link from others."""
        if is_plain(path):
            return path
        if path not in self._links:
            self._links[path] = self.folder / role
            self._links[path].symlink_to(path)
        return self._links[path]

    def undone(self, text: str) -> str:
        """What the server says, with the names that the user knows."""
        for path, link in self._links.items():
            text = text.replace(str(link), str(path))
        return text
