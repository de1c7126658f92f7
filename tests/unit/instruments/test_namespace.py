"""A network namespace is reached over its wire, until that is cut, and leaves nothing behind."""

from __future__ import annotations

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


def answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def test_a_wire_is_there_cut_and_there_again() -> None:
    with namespace(250) as home:
        command = [*home.prefix, sys.executable, "-c", LISTENS, home.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            assert answers(home.address, port)
            home.unplug()
            assert not answers(home.address, port)
            home.plug_in()
            assert answers(home.address, port)
            process.kill()
        listed = ["ip", "netns", "list"]
        assert home.name in subprocess.check_output(listed, encoding="utf-8")
    assert home.name not in subprocess.check_output(listed, encoding="utf-8")
