"""`talkahead accept`: hands its arguments to `perf.acceptance` of the checkout that the package runs from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from talkahead.errors import TalkaheadError
from talkahead.launcher.installation import SOURCE_ROOT

NAME = "accept"
ABOUT = "import a downloaded checkpoint, compare it with transformers, speak, and write what was found"


def run(arguments: Sequence[str]) -> int:
    """Its exit status. Raises TalkaheadError where there is no checkout, which import and measures lie in."""
    checkout = SOURCE_ROOT.parent
    if not (checkout / "perf" / "acceptance").is_dir():
        raise TalkaheadError(
            f"accept needs a clone of the repository, and {checkout} is none; there: pip install -e "
            "'.[server,client,families]'"
        )
    paths = [str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "perf.acceptance", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}).returncode
