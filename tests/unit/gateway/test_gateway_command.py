from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
from talkahead_gateway import command


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--server", "here"], "'here' is not HOST:PORT"),
        (["--server", "a:1,a:1"], "names an address twice"),
        (["--server", "a:0"], "with a port from 1 to 65535"),
        (["--port", "70000"], "not a whole number from 0 to 65535"),
        (["--drain-timeout", "nan"], "not a number of seconds"),
        (["--max-body-bytes", "0"], "not a whole number from 1"),
        (["--api-key", " "], "a key has at least one character"),
        (["--streams-per-key", "2"], "--streams-per-key: there is no key"),
        (["--server-key", "k.pem"], "--server-certificate, --server-key: a client's certificate and its key"),
        (["--characters-per-key", "2"], "--characters-per-key: there is no key"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == command.USAGE_ERROR and sentence in capsys.readouterr().err


def test_a_file_without_keys_opens_no_door(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys").write_text("\n \n")
    with pytest.raises(SystemExit):
        command.main(["--api-keys-file", str(tmp_path / "keys")])
    assert "holds no key" in capsys.readouterr().err
    assert command.main(["--api-keys-file", str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option in ("--port", "--riva-port"):
            assert command.main([option, str(port)]) == 1
            assert f"127.0.0.1:{port} cannot be had" in capsys.readouterr().err


def test_what_is_written_leaves_at_once() -> None:
    with (
        command._listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_command_answers_until_a_signal(tmp_path: Path) -> None:
    """Before any server is there, as one may come later."""
    (tmp_path / "keys").write_text("one\n")
    options = ["--server", "127.0.0.1:1", "--api-keys-file", str(tmp_path / "keys"), "--riva-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "talkahead", "gateway", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        ready, http, address, riva, riva_address = running.stdout.readline().split()
        assert (ready, http, riva) == ("ready", "http", "riva") and address.startswith("127.0.0.1:")
        with grpc.insecure_channel(riva_address) as channel:
            grpc.channel_ready_future(channel).result(10)
        with urllib.request.urlopen(f"http://{address}/", timeout=10) as page:
            assert b"talkahead" in page.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://{address}/v1/models", timeout=10)
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 0
        assert running.stdout.read() == "" and running.stderr.read() == "draining: 0 open streams\n"
