"""How much memory a server that was started for a measurement holds."""

from __future__ import annotations

from pathlib import Path

from talkahead.launcher.process_watch import model_processes

from instruments.server import Server

SERVER = "tritonserver"


def of(server: Server) -> dict[str, int]:
    """Of a server's processes; empty where it was there before the measurement."""
    return {} if server.launcher is None else resident_bytes(server.launcher)


def resident_bytes(launcher: int) -> dict[str, int]:
    """By process: Triton's own and those of the Python models.

    Args:
        launcher: process id of `talkahead serve`, whose only child is Triton.
    """
    server = server_pid(launcher)
    models = {model: pid for pid, model in sorted(model_processes(server))}
    return {name: _resident_bytes(pid) for name, pid in {SERVER: server, **models}.items()}


def server_pid(launcher: int) -> int:
    """Triton's own process."""
    tasks = Path(f"/proc/{launcher}/task").glob("*/children")
    [server] = [int(child) for task in tasks for child in task.read_text(encoding="utf-8").split()]
    return server


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"process {pid} has no memory")
