"""A process that is a replica to a proxy: Triton's gRPC by `fake_triton`, and HTTP for health checks.

Health checks get the same answer by either. Streams tell by `stats.drafted` which replica speaks them. The
first word of their text says how they go.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import grpc
from fake_triton import FakeStream, FakeTriton, Response, chunk, final

SPEAKS, HESITATES, STAYS_SILENT = "speaks", "hesitates", "silent"
"""To its end at once; one chunk, and no more until it is cancelled; nothing until then."""
WELL, DRAINS = '{"IS_LAST":true}', '{"error":"UNAVAILABLE: the server is shutting down"}'


class FakeReplica:
    """Runs the process; `kill` is SIGKILL, `start` the same replica at the same addresses again.

    Args:
        secret: a folder of tls.crt, tls.key and ca.crt, as the chart mounts it, for gRPC by mutual TLS.
    """

    def __init__(self, number: int, folder: Path, secret: Path | None = None) -> None:
        self.number = number
        self._health = folder / f"health-{number}"
        self._secret = () if secret is None else (str(secret),)
        self.answer(WELL)
        self._ports = ("0", "0")
        self.start()

    def start(self) -> None:
        command = [sys.executable, __file__, str(self.number), str(self._health), *self._ports, *self._secret]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._process.stdout is not None
        grpc, http = self._process.stdout.readline().split()
        self._ports = (grpc, http)

    @property
    def addresses(self) -> tuple[str, str]:
        grpc, http = self._ports
        return f"127.0.0.1:{grpc}", f"127.0.0.1:{http}"

    def answer(self, text: str) -> None:
        """To health checks from here on."""
        self._health.write_text(text, encoding="utf-8")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


def _script(number: int, answer: Path) -> Any:  # noqa: ANN401
    drafts = (number, 0, 0, 0, 0)

    def script(stream: FakeStream) -> Iterator[Any]:
        health = answer.read_text(encoding="utf-8")
        if "health_check" in stream.request.parameters and health != WELL:
            yield Response(error_message=health)
            return
        if stream.text.startswith(STAYS_SILENT):
            stream.until_cancelled()
            return
        yield chunk(0, drafts=drafts)
        if stream.text.startswith(HESITATES):
            stream.until_cancelled()
            return
        yield chunk(1, is_last=True, drafts=drafts)
        yield final()

    return script


def _health(answer: Path) -> type[BaseHTTPRequestHandler]:
    class Health(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = answer.read_bytes()
            self.send_response(200 if body.decode() == WELL else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None: ...

    return Health


def _credentials(secret: Path) -> grpc.ServerCredentials:
    key, certificate, root = ((secret / name).read_bytes() for name in ("tls.key", "tls.crt", "ca.crt"))
    return grpc.ssl_server_credentials([(key, certificate)], root, require_client_auth=True)


def _run(number: int, answer: Path, grpc_port: int, http_port: int, secret: Path | None = None) -> None:
    triton = FakeTriton(grpc_port, secret and _credentials(secret))
    triton.script = _script(number, answer)
    server = ThreadingHTTPServer(("127.0.0.1", http_port), _health(answer))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(triton.address.rpartition(":")[2], server.server_port, flush=True)
    signal.pause()


if __name__ == "__main__":
    _run(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *map(Path, sys.argv[5:]))
