"""Where a server listens."""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from talkahead.errors import Code, TalkaheadError

_THIS_MACHINE = "127.0.0.1"
_TIMEOUT_S = 2.0
_SPEECH_TIMEOUT_S = 20.0
_SHOWN_CHARACTERS = 200
_LENT = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST_PORT, _TRIED_PORTS = 10_000, 50
_NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Addresses:
    """One host and the ports of Triton's three services.

    Args:
        has_tls: gRPC is spoken over TLS. Triton has none for HTTP, which only this machine can reach then.
    """

    host: str
    grpc: int
    http: int
    metrics: int
    has_tls: bool = False

    @classmethod
    def choose(
        cls, host: str, grpc: int = 0, http: int = 0, metrics: int = 0, *, has_tls: bool = False
    ) -> Self:
        """The given ports, and a free one for each that is 0. All are held until the last is known.

        Raises TalkaheadError for one that is taken: the server of another would answer in our name.
        """
        with ExitStack() as sockets:
            free = _seldom_taken()
            grpc, http, metrics = (_claim(host, port, free, sockets) for port in (grpc, http, metrics))
        return cls(host, grpc, http, metrics, has_tls)

    def __str__(self) -> str:
        grpc, metrics = f"grpc {self.host}:{self.grpc}", f"metrics {self.host}:{self.metrics}"
        return f"{grpc} http {self.http_host}:{self.http} {metrics}"

    @property
    def http_host(self) -> str:
        return _THIS_MACHINE if self.has_tls else self.host

    @property
    def grpc_from_here(self) -> str:
        """Where this machine reaches gRPC."""
        return f"{self._reachable(self.grpc)}:{self.grpc}"

    def _reachable(self, port: int) -> str:
        """The host for calls from this machine, where the server listens on all interfaces."""
        host = self.http_host if port == self.http else self.host
        return _THIS_MACHINE if host == "0.0.0.0" else host

    def is_ready(self) -> bool:
        """The whole server takes requests."""
        try:
            return self._get(self.http, "/v2/health/ready") is not None
        except (OSError, http.client.HTTPException):
            return False

    def is_unloaded(self, model: str, headers: Mapping[str, str] = _NO_HEADERS) -> bool:
        """The server says so. Of a model whose process has died it says that it is ready.

        Args:
            headers: that open the server's model control.
        """
        try:
            answer = self._request(self.http, "POST", "/v2/repository/index", headers=headers)
            index = json.loads(answer or "null")
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return index is not None and not any(
            entry["name"] == model and entry.get("state") == "READY" for entry in index
        )

    def recording_rate_hz(self, model: str) -> int | None:
        """The rate of recordings where there are no named voices, as the model that knows them says."""
        known = self._told(model, "voices")
        return None if known is None or known["voices"] else int(known["sample_rate_hz"])

    def open_streams(self, model: str) -> int | None:
        """Streams whose client has not had the end yet, as the model that knows says; None: it does not."""
        load = self._told(model, "load")
        return None if load is None else int(load["open_streams"])

    def _told(self, model: str, command: str) -> dict[str, Any] | None:
        """What a model answers to a command; None: it does not."""
        try:
            answer = self._request(self.http, "POST", f"/v2/models/{model}/generate", {"COMMAND": command})
            told: dict[str, Any] = json.loads(json.loads(answer or "{}")["RESULT"])
            return told
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None

    def speak(
        self, model: str, text: str, inputs: Mapping[str, object], timeout_s: float = _SPEECH_TIMEOUT_S
    ) -> str | None:
        """One utterance over HTTP, read to its end; what went wrong, or None.

        Args:
            inputs: other tensors, and parameters.
            timeout_s: for each thing that is waited for.
        """
        body = json.dumps({"TEXT": text, **inputs})
        host = self._reachable(self.http)
        connection = http.client.HTTPConnection(host, self.http, timeout=timeout_s)
        try:
            connection.request("POST", f"/v2/models/{model}/generate_stream", body)
            response = connection.getresponse()
            answer = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()
        failure = re.search(r'"error": *"((?:[^"\\]|\\.)*)', answer)
        if failure or response.status != 200:
            return failure[1] if failure else answer[:_SHOWN_CHARACTERS]
        return None

    def _get(self, port: int, path: str) -> str | None:
        return self._request(port, "GET", path)

    def _request(
        self,
        port: int,
        method: str,
        path: str,
        inputs: object = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> str | None:
        connection = http.client.HTTPConnection(self._reachable(port), port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, json.dumps(inputs) if inputs else None, dict(headers))
            response = connection.getresponse()
            text = response.read().decode()
            return text if response.status == 200 else None
        finally:
            connection.close()


def _claim(host: str, port: int, free: Iterator[int], sockets: ExitStack) -> int:
    listener = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    # A server that has just ended leaves connections behind, which are no reason to wait.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if not port and (found := next((one for one in free if _is_bound(listener, host, one)), 0)):
        return found
    try:
        listener.bind((host, port))
    except OSError as error:
        reason = f"{host}:{port} cannot be had ({error.strerror}); choose another port, or 0 for a free one"
        raise TalkaheadError(reason, Code.UNAVAILABLE) from error
    claimed: int = listener.getsockname()[1]
    return claimed


def _is_bound(listener: socket.socket, host: str, port: int) -> bool:
    try:
        listener.bind((host, port))
    except OSError:
        return False
    return True


def _seldom_taken() -> Iterator[int]:
    """Some ports below those that the system lends to whoever calls others: of these, one may be lent before
    the server listens."""
    try:
        lent_from = int(_LENT.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):  # not Linux
        lent_from = 0
    own = range(_LEAST_PORT, lent_from)
    return iter(random.sample(own, min(len(own), _TRIED_PORTS)))
