"""`python -m talkahead` is the command `talkahead`."""

import sys

from talkahead.launcher.command import main

if __name__ == "__main__":
    sys.exit(main())
