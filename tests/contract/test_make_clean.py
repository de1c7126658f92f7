"""`make clean` leaves nothing behind, not even outside the checkout."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_compiled_libraries_go_too_and_it_says_where_they_lay(tmp_path: Path) -> None:
    (tmp_path / "python_backends").symlink_to(ROOT / "python_backends")
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    own = (tmp_path / ".venv", cache / "talkahead", temporary / f"talkahead-native-{os.getuid()}")
    others = cache / "others"
    for folder in (*own, others):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    # Without packages: those of the virtual environment may be gone.
    python = f"{shlex.quote(sys.executable)} -S"
    command = ["make", "-f", str(ROOT / "Makefile"), f"PYTHON={python}", "clean"]
    # Not what `make test` hands down: another VENV would be removed.
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.splitlines() == [f"rm -rf {place}" for place in (".venv", *own[1:])]
    assert not any(folder.exists() for folder in own)
    assert (others / "file").exists() and (ROOT / "python_backends").exists()
