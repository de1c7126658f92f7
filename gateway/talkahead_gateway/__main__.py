"""`python -m talkahead_gateway`: the command of that name."""

import sys

from talkahead_gateway.command import main

if __name__ == "__main__":
    sys.exit(main())
