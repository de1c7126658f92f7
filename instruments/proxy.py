"""A proxy before two servers on this machine: Debian's haproxy or Envoy, as deploy/ configures them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import yaml
from talkahead.launcher.addresses import Addresses

_DEPLOY = Path(__file__).parents[1] / "deploy"
_HAPROXY = _DEPLOY / "haproxy" / "haproxy.cfg"
_ENVOY = _DEPLOY / "helm" / "talkahead" / "files" / "envoy.yaml"
_END_LIMIT_S = 10.0
_CONNECT_LIMIT_S = 10.0
_NAMES = ("first", "second")
_LISTENER, _CLUSTER = "speech", "replicas"

Replicas = tuple[tuple[str, str], tuple[str, str]]
"""The addresses of each, of gRPC and of HTTP, `host:port`."""


class Kind(StrEnum):
    """Which proxy."""

    HAPROXY = "haproxy"
    ENVOY = "envoy"


class Proxy(Protocol):
    """One that runs; `address` is where it listens, `host:port`."""

    @property
    def address(self) -> str: ...

    def requests(self) -> tuple[int, int]:
        """Of each replica, streams and calls that it was given since the proxy started; no health checks."""

    def are_up(self) -> tuple[bool, bool]:
        """Of each replica, whether new streams may go there."""

    def outages(self) -> list[str]:
        """A line for each time that a replica was taken for sick or dead."""


def find_envoy() -> str | None:
    """The program that a package of the extra `deploy` carries, or this machine's own."""
    return shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy")


@contextlib.contextmanager
def proxy_before(
    replicas: Replicas, folder: Path, kind: Kind = Kind.HAPROXY, envoys: str | None = None
) -> Iterator[Proxy]:
    """It is ended behind it.

    Args:
        folder: for its log and its configuration.
        envoys: configuration, as the chart renders it; None: its file.
    """
    free = Addresses.choose("127.0.0.1")
    address, page = f"{free.host}:{free.grpc}", f"{free.host}:{free.metrics}"
    log = folder / f"{kind}.log"
    if kind is Kind.HAPROXY:
        started = _haproxy(replicas, address, page, folder)
    else:
        started = _envoy(replicas, address, page, folder, envoys or _ENVOY.read_text(encoding="utf-8"))
    with log.open("wb") as written:
        process = subprocess.Popen(started.command, env={**os.environ, **started.environment}, stderr=written)
        try:
            _await(address, process)
            yield started.proxy
        finally:
            process.terminate()
            try:
                process.wait(_END_LIMIT_S)
            finally:
                process.kill()


@dataclass(frozen=True)
class _Started:
    proxy: Proxy
    command: Sequence[str | Path]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class _Haproxy:
    address: str
    page: str
    log: Path

    def requests(self) -> tuple[int, int]:
        first, second = self._of_each("sessions_total", "")
        return first, second

    def are_up(self) -> tuple[bool, bool]:
        first, second = self._of_each("status", ',state="UP"')
        return bool(first), bool(second)

    def outages(self) -> list[str]:
        return re.findall(
            r"^Server replicas/\w+ is DOWN, .*", self.log.read_text(encoding="utf-8"), re.MULTILINE
        )

    def _of_each(self, metric: str, state: str) -> Iterator[int]:
        text = _read(f"http://{self.page}/metrics")
        for name in _NAMES:
            found = re.search(
                rf'^haproxy_server_{metric}{{proxy="replicas",server="{name}"{state}}} (\d+)',
                text,
                re.MULTILINE,
            )
            yield int(found[1]) if found else 0


def _haproxy(replicas: Replicas, address: str, page: str, folder: Path) -> _Started:
    environment = {"PROXY": address, "PROXY_METRICS": page}
    for name, (grpc, http) in zip(_NAMES, replicas, strict=True):
        host, _, port = grpc.rpartition(":")
        variable = name.upper()
        environment |= {variable: host, f"{variable}_GRPC": port, f"{variable}_HTTP": http.rpartition(":")[2]}
    log = folder / f"{Kind.HAPROXY}.log"
    return _Started(_Haproxy(address, page, log), ("haproxy", "-db", "-f", _HAPROXY), environment)


@dataclass(frozen=True)
class _Envoy:
    address: str
    page: str
    grpc: tuple[str, str]
    events: Path

    def requests(self) -> tuple[int, int]:
        first, second = (
            # Envoy leaves out what is 0.
            next(int(stat.get("value", 0)) for stat in host["stats"] if stat["name"] == "rq_total")
            for host in self._hosts()
        )
        return first, second

    def are_up(self) -> tuple[bool, bool]:
        faults = ("failed_active_health_check", "failed_outlier_check")
        first, second = (
            not any(host["health_status"].get(fault, False) for fault in faults) for host in self._hosts()
        )
        return first, second

    def outages(self) -> list[str]:
        if not self.events.exists():
            return []
        return [
            line
            for line in self.events.read_text(encoding="utf-8").splitlines()
            if "eject_unhealthy_event" in line
        ]

    def _hosts(self) -> Iterator[dict[str, Any]]:
        clusters = json.loads(_read(f"http://{self.page}/clusters?format=json"))["cluster_statuses"]
        (cluster,) = (one for one in clusters if one["name"] == _CLUSTER)
        hosts = {
            f"{at['address']}:{at['port_value']}": host
            for host in cluster["host_statuses"]
            for at in (host["address"]["socket_address"],)
        }
        return (hosts[grpc] for grpc in self.grpc)


def _envoy(replicas: Replicas, address: str, page: str, folder: Path, text: str) -> _Started:
    """As the chart has it, but for its addresses."""
    config = yaml.safe_load(text)
    events = folder / "health.log"
    config["admin"]["address"] = _socket(page)
    (listener,) = config["static_resources"]["listeners"]
    (cluster,) = config["static_resources"]["clusters"]
    assert (listener["name"], cluster["name"]) == (_LISTENER, _CLUSTER)
    listener["address"] = _socket(address)
    cluster["type"] = "STATIC"
    cluster["load_assignment"]["endpoints"] = [
        {"lb_endpoints": [{"endpoint": {"address": _socket(grpc)}} for grpc, _ in replicas]}
    ]
    cluster["health_checks"][0]["event_log_path"] = str(events)
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    program = find_envoy()
    assert program is not None, "there is no envoy"
    command = (program, "-c", path, "--log-level", "warning", "--use-dynamic-base-id", "--concurrency", "1")
    return _Started(_Envoy(address, page, (replicas[0][0], replicas[1][0]), events), command, {})


def _socket(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as page:
        text: str = page.read().decode()
    return text


def _await(address: str, process: subprocess.Popen[bytes]) -> None:
    """Returns once it listens; raises where it does not."""
    host, _, port = address.partition(":")
    with contextlib.ExitStack() as stack:
        while process.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                stack.enter_context(socket.create_connection((host, int(port)), _CONNECT_LIMIT_S))
                return
    raise RuntimeError(f"the proxy ended with status {process.returncode}; its log says why")
