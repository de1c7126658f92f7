"""A network namespace, as a machine of its own on a wire to this one; needs root."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Namespace:
    """Its name, its end of the wire, and its address there, which this machine reaches."""

    name: str
    interface: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Of a command that shall run in it."""
        return ("ip", "netns", "exec", self.name)

    def unplug(self) -> None:
        """What is sent either way is lost from here on, and nobody is told.

        Its address is taken, not its link: a sender whose own link is down is told so by
        its kernel, which counts no probe as unanswered.
        """
        self._run(f"ip address delete {self._place}")

    def plug_in(self) -> None:
        self._run(f"ip address add {self._place}")

    @property
    def _place(self) -> str:
        return f"{self.address}/30 dev {self.interface}"

    def _run(self, command: str) -> None:
        _run(f"{shlex.join(self.prefix)} {command}")


@contextlib.contextmanager
def namespace(number: int) -> Iterator[Namespace]:
    """Removed behind it, with its wire.

    Args:
        number: from 1 to 255, of its addresses.
    """
    name = f"talkahead-{os.getpid()}-{number}"
    outer, inner = f"ta{number}-{os.getpid()}", f"tb{number}-{os.getpid()}"
    made = Namespace(name, inner, f"10.199.{number}.2")
    _run(f"ip netns add {name}")
    try:
        _run(f"ip link add {outer} type veth peer name {inner} netns {name}")
        _run(f"ip address add 10.199.{number}.1/30 dev {outer}")
        _run(f"ip link set {outer} up")
        for link in (inner, "lo"):
            _run(f"{shlex.join(made.prefix)} ip link set {link} up")
        made.plug_in()
        yield made
    finally:
        _run(f"ip netns delete {name}")


def _run(command: str) -> None:
    subprocess.run(shlex.split(command), check=True)
