"""`python -m build_engines STAGE`: one stage after another makes what is served."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from talkahead.errors import TalkaheadError

from build_engines import build, calibrate, export, import_checkpoint, parity, switch

STAGES = {
    "import-checkpoint": import_checkpoint,
    "calibrate": calibrate,
    "export": export,
    "build": build,
    "parity": parity,
    "switch": switch,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m build_engines", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True)
    for name, stage in STAGES.items():
        first_line = (stage.__doc__ or "").partition("\n")[0]
        stage.add_arguments(stages.add_parser(name, help=first_line, description=stage.__doc__))
    options = parser.parse_args(arguments)
    try:
        STAGES[options.stage].run(options)
    except TalkaheadError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
