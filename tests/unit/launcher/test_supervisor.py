"""The launcher against an imitation of tritonserver, as a process of its own: signals are part of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

_SERVER = Path(__file__).with_name("fake_tritonserver.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of two models, and the server's binary."""
    for model in ("frontend", "tts"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "config.pbtxt").touch()
    binary = tmp_path / "tritonserver"
    # By a shell: a first line that names the interpreter ends at a space in its path.
    binary.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(_SERVER))} "$@"\n')
    binary.chmod(0o755)
    return tmp_path


class Launched:
    """A running `talkahead serve`."""

    def __init__(self, folder: Path, temporary: Path, *options: str) -> None:
        self._log = temporary / "log"
        command = [sys.executable, "-m", "talkahead", "serve", "--repository", str(folder)]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--tritonserver", str(folder / "tritonserver"), *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "TMPDIR": str(temporary)},
            )

    def ready(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), self.log
        return line

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        self.wait_until(lambda: text in self.log)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The launcher sees all that happens meanwhile at once."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self, times: int = 1) -> int:
        for _ in range(times):
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        return self.process.wait(20)

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop(3)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def launch(folder: Path) -> Iterator[Callable[..., Launched]]:
    launched = []
    with tempfile.TemporaryDirectory(prefix="launch-") as temporary:

        def start(*options: str) -> Launched:
            launched.append(Launched(folder, Path(temporary), *options))
            return launched[-1]

        yield start
        for server in launched:
            server.close()
        assert [path.name for path in Path(temporary).iterdir()] == ["log"], "a folder was left behind"


Launch = Callable[..., Launched]


def test_a_server_starts_says_where_it_is_and_stops(launch: Launch, folder: Path) -> None:
    (folder / "frontend" / "configs").mkdir()
    (folder / "frontend" / "configs" / "onnx.pbtxt").touch()
    server = launch("--threads", "tts=3", "--model-config-name", "onnx")
    words = server.ready().split()
    assert words[1::2] == ["grpc", "http", "metrics"] and len({*words[2::2]}) == 3
    assert server.stop() == 0
    arguments, environment = json.loads((folder / "arguments").read_text())
    assert "--model-config-name=onnx" in arguments and "--disable-auto-complete-config" in arguments
    assert f"--grpc-port={words[2].partition(':')[2]}" in arguments
    assert not [one for one in arguments if "control" in one], "model control is closed"
    assert environment["TALKAHEAD_THREADS_TTS"] == "3"
    assert "mind the gap" in server.log and "CudaDriverHelper" not in server.log
    assert "2 of 2 models ready" in server.log and server.log.endswith("stopped\n")


def test_model_control_is_open_to_who_has_the_key(launch: Launch, folder: Path) -> None:
    server = launch("--model-control", str(folder / "key"))
    server.ready()
    assert server.stop() == 0
    arguments, _ = json.loads((folder / "arguments").read_text())
    restricted = f"model-repository:talkahead-model-control={(folder / 'key').read_text().strip()}"
    assert {"--model-control-mode=explicit", "--load-model=*"} <= set(arguments)
    for door in ("--grpc-restricted-protocol", "--http-restricted-api"):
        assert f"{door}={restricted}" in arguments


def test_a_model_that_does_not_load_is_the_reason(launch: Launch, folder: Path) -> None:
    (folder / "frontend" / "behaviour").write_text("fail")
    server = launch()
    assert server.process.wait(20) == 1
    assert "model frontend did not load: ValueError: no weights (at model.py(3): x)" in server.log
    assert "restarting" not in server.log


def test_a_process_that_ends_while_it_loads_ends_the_wait(launch: Launch, folder: Path) -> None:
    (folder / "frontend" / "behaviour").write_text("vanish")
    server = launch()
    assert server.process.wait(20) == 1
    assert re.search(r"error: the process of a model died \(pid \d+, status 1\) during the start", server.log)
    assert server.log.endswith("; printed last: cannot open libpython\ngiving up\n")


def test_a_server_that_does_not_speak_is_not_ready(launch: Launch, folder: Path) -> None:
    (folder / "mute").write_text("no voice")
    server = launch()
    assert server.process.wait(20) == 1 and "the server does not speak: no voice" in server.log


def test_a_dead_model_restarts_the_server_on_the_same_ports(launch: Launch, folder: Path) -> None:
    (folder / "frontend" / "behaviour").write_text("die")
    server = launch()
    first = server.ready()
    assert server.ready() == first
    assert "the process of model frontend died (pid " in server.log and "2 restarts left" in server.log
    assert server.stop() == 0


def test_a_server_that_served_and_does_not_come_back_at_once_is_tried_again(
    launch: Launch, folder: Path
) -> None:
    (folder / "frontend" / "behaviour").write_text("die")
    server = launch()
    first = server.ready()
    (folder / "frontend" / "behaviour").write_text("vanish")
    server.wait_for("during the start")
    (folder / "frontend" / "behaviour").unlink()
    assert server.ready() == first
    assert "1 restarts left" in server.log and server.stop() == 0


@pytest.mark.parametrize("is_open", [False, True])
def test_the_end_of_an_unloaded_model_is_no_death(is_open: bool, launch: Launch, folder: Path) -> None:
    (folder / "frontend" / "behaviour").write_text("die")
    (folder / "unloaded").write_text("frontend")
    server = launch(*(("--model-control", str(folder / "key")) if is_open else ()))
    server.ready()
    time.sleep(2.0)
    assert server.stop() == 0 and "restarting" not in server.log


def test_a_server_that_hangs_over_its_crash_is_restarted(launch: Launch, folder: Path) -> None:
    server = launch("--check-interval", "0")
    first = server.ready()
    (folder / "crash").touch()
    assert server.ready() == first
    assert "error: the server crashed: Signal (11) received\n" in server.log
    assert server.stop() == 0


@pytest.mark.parametrize("cause", ["dead models", "dying model"])
def test_a_server_that_crashes_over_a_dead_model_names_it(cause: str, launch: Launch, folder: Path) -> None:
    """Also when it is gone before the kernel has ended that model's process."""
    (folder / "frontend" / "behaviour").write_text("hoard")
    server = launch("--check-interval", "0")
    first = server.ready()
    with server.paused() if cause == "dead models" else nullcontext():
        # Written elsewhere first: it is seen whole, or not at all.
        (folder / "cause").write_text(cause)
        (folder / "cause").rename(folder / "crash")
        server.wait_until(lambda: not (folder / "crash").exists())
    assert server.ready() == first
    named = r"error: the process of model frontend died \(pid \d+, SIGKILL\); .*the server crashed: Signal"
    assert re.search(named, server.log), server.log
    assert server.stop() == 0


def test_a_server_that_complains_and_does_not_speak_is_restarted(launch: Launch, folder: Path) -> None:
    """Twice in a row: once, it may have been held up."""
    server = launch("--check-interval", "0")
    first = server.ready()
    (folder / "mute").write_text("Stub process 'vocoder_0_0' is not healthy.\n" * 2 + "\n")
    (folder / "complaint").write_text("nothing has become of chunk 3 for 2 s")
    assert server.ready() == first
    assert "does not speak any more: Stub process 'vocoder_0_0' is not healthy." in server.log
    assert server.stop() == 0


@pytest.mark.parametrize("answers", ["held up\n\n", "RESOURCE_EXHAUSTED: 64 streams wait\n" * 4, "\n"])
def test_a_server_that_complains_and_is_not_sick_goes_on(launch: Launch, folder: Path, answers: str) -> None:
    server = launch("--check-interval", "0")
    server.ready()
    (folder / "mute").write_text(answers)
    for number in range(2):
        (folder / "complaint").write_text(f"complaint {number}")
        server.wait_for(f"complaint {number}")
    time.sleep(1.3)
    assert server.stop() == 0 and "restarting" not in server.log


def test_a_server_that_falls_silent_is_noticed_without_a_complaint(launch: Launch, folder: Path) -> None:
    server = launch("--check-interval", "0.2", "--restarts", "0")
    server.ready()
    (folder / "mute").write_text("no voice")
    assert server.process.wait(20) == 1
    assert "does not speak any more: no voice" in server.log and server.log.endswith("giving up\n")


def test_nobody_speaks_without_a_reason(launch: Launch, folder: Path) -> None:
    server = launch("--check-interval", "0")
    server.ready()
    (folder / "mute").write_text("no voice")
    time.sleep(1.5)
    assert server.stop() == 0 and "restarting" not in server.log


def test_restarts_are_limited(launch: Launch, folder: Path) -> None:
    (folder / "frontend" / "behaviour").write_text("die")
    server = launch("--restarts", "0")
    server.ready()
    assert server.process.wait(20) == 1 and "giving up" in server.log


def test_open_streams_are_waited_for(launch: Launch, folder: Path) -> None:
    (folder / "open_streams").write_text("2")
    server = launch()
    server.ready()
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("draining: 2 open streams")
    (folder / "open_streams").write_text("1")
    server.wait_for("draining: 1 open streams")
    assert server.process.poll() is None
    (folder / "open_streams").write_text("0")
    assert server.process.wait(20) == 0


def test_new_streams_are_taken_until_proxies_know_or_a_second_signal(launch: Launch, folder: Path) -> None:
    (folder / "open_streams").write_text("2")
    server = launch("--drain-delay", "900")
    server.ready()
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("health checks are refused")
    assert "draining" not in server.log
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0


@pytest.mark.parametrize("answer", ["late", "hangs up", "busy", "cut"])
def test_open_streams_are_waited_for_while_nobody_says_how_many(
    answer: str, launch: Launch, folder: Path
) -> None:
    (folder / "open_streams").write_text("2")
    server = launch()
    server.ready()
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("draining: 2 open streams")
    (folder / "open_streams").write_text(answer)
    server.wait_for("draining: an unknown number of open streams")
    (folder / "open_streams").write_text("1")
    server.wait_for("draining: 1 open streams")
    assert "stopping" not in server.log
    (folder / "open_streams").write_text("0")
    assert server.process.wait(20) == 0


def test_draining_ends_at_its_timeout_though_nobody_says_how_many_streams_are_open(
    launch: Launch, folder: Path
) -> None:
    (folder / "open_streams").write_text("hangs up")
    server = launch("--drain-timeout", "0.3")
    server.ready()
    assert server.stop() == 0 and "draining: an unknown number of open streams" in server.log


def test_a_second_signal_stops_at_once(launch: Launch, folder: Path) -> None:
    (folder / "open_streams").write_text("2")
    server = launch()
    server.ready()
    assert server.stop(times=2) == 0


def test_draining_ends_at_its_timeout(launch: Launch, folder: Path) -> None:
    (folder / "open_streams").write_text("2")
    server = launch("--drain-timeout", "0.3")
    server.ready()
    assert server.stop() == 0 and "draining: 2 open streams" in server.log


@pytest.mark.slow
def test_a_server_that_hangs_is_killed(launch: Launch, folder: Path) -> None:
    (folder / "stubborn").touch()
    server = launch("--exit-timeout", "0")
    server.ready()
    assert server.stop() == 0 and "still counted requests in flight" in server.log


def gateway_pid(server: Launched) -> int:
    """Of the child that is neither the server nor a model."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    [pid] = [pid for pid in children if b"\0gateway\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(pid)


def test_a_gateway_starts_and_stops_with_the_server(launch: Launch) -> None:
    server = launch("--gateway", "--riva-port", "0")
    assert server.ready().split()[1::2] == ["grpc", "http", "metrics"]
    words = server.ready().split()
    assert words[1::2] == ["http", "riva"]
    with urllib.request.urlopen(f"http://{words[2]}/", timeout=10) as page:
        assert page.status == 200
    assert server.stop() == 0
    assert "draining: 0 open streams" in server.log and "stopping the server" in server.log


def test_a_gateway_that_ends_by_itself_is_started_again_where_it_listened(launch: Launch) -> None:
    server = launch("--restarts", "1", "--gateway", "--riva-port", "0")
    server.ready()
    first = server.ready()
    os.kill(gateway_pid(server), signal.SIGKILL)
    assert server.ready() == first
    assert "the gateway ended by itself with status -9; starting it again" in server.log
    assert "restarting the server" not in server.log and server.stop() == 0


def test_a_gateway_that_does_not_start_is_the_reason(launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = launch("--gateway", "--port", str(taken.getsockname()[1]))
        assert server.process.wait(20) == 1
    assert "cannot be had" in server.log
    assert server.log.endswith("error: the gateway ended with status 1 before it was ready\ngiving up\n")
