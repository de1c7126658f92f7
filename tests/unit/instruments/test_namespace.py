"""A network namespace is reached over its wire, until that is cut, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

import pytest

from instruments.namespace import namespace

pytestmark = pytest.mark.needs("netns")

LISTENS = """
import socket, sys
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
while True:
    listener.accept()[0].close()
"""


def answers(address: str, port: int, within_s: float) -> bool:
    try:
        socket.create_connection((address, port), timeout=within_s).close()
    except OSError:
        return False
    return True


def test_a_wire_is_there_cut_and_there_again() -> None:
    # Other runs on this machine have numbers of their own.
    with namespace(1 + os.getpid() % 250) as home, contextlib.ExitStack() as stack:
        command = [*home.prefix, sys.executable, "-c", LISTENS, home.address]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8"))
        stack.callback(process.kill)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert answers(home.address, port, within_s=10)
        home.unplug()
        assert not answers(home.address, port, within_s=0.5)
        home.plug_in()
        assert answers(home.address, port, within_s=10)
        listed = ["ip", "netns", "list"]
        assert home.name in subprocess.check_output(listed, encoding="utf-8")
    assert home.name not in subprocess.check_output(listed, encoding="utf-8")
