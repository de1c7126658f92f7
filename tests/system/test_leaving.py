"""Streams that end otherwise than by being spoken: nothing of them stays, and the server still stops cleanly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hearing import speak
from raw import RawStream, speech_request
from served import Served, served
from talkahead_client import Cancelled, Client, InvalidRequest, ServerFailure, SpeechError
from texts import SENTENCES
from waiting import eventually

from talkahead.engine.acknowledgements import WindowDone, encode, rendezvous_folder

LONG = " ".join(SENTENCES)
GAUGES = ("talkahead_active_streams", "talkahead_queued_streams", "talkahead_open_streams")
LOADS = ("active", "queued", "open_streams", "windows_in_flight")
EXIT_TIMEOUT_S = 20
RUDE_CLIENTS = 30


def wait_until_idle(server: Served, client: Client) -> None:
    """No slot is taken, no stream open, no window unacknowledged: by the talker's report and on the metrics page."""

    def busy() -> dict[str, float]:
        details = client.load().details
        gauges = {name: server.metric(name) for name in GAUGES}
        return {name: value for name, value in {**{n: details[n] for n in LOADS}, **gauges}.items() if value}

    eventually(busy, lambda names: not names)


def finish(server: Served, client: Client) -> None:
    speak(client, SENTENCES[0], max_seconds=1.0)


def refuse(server: Served, client: Client) -> None:
    with pytest.raises(InvalidRequest):
        speak(client, "")


def pass_a_deadline(server: Served, client: Client) -> None:
    """An error of the talker, in the middle of a stream or before it began."""
    for deadline_ms in (1, 60, 150, 300):
        with pytest.raises(Cancelled, match=f"deadline_ms: {deadline_ms} ms"):
            speak(client, LONG, deadline_ms=deadline_ms)


def fail_a_window(server: Served, client: Client) -> None:
    """A vocoder that fails, as the talker hears of it."""
    with client.speak(LONG) as speech:
        stream = next(speech).stats.stream
        _tell_talker_of_failures(server, stream)
        with pytest.raises(ServerFailure, match="the vocoder failed"):
            list(speech)


def cancel_before_the_first_chunk(server: Served, client: Client) -> None:
    speech = client.speak(LONG)
    speech.close()


def cancel_in_the_middle(server: Served, client: Client) -> None:
    for chunks in (1, 2, 5):
        with client.speak(LONG) as speech:
            for _ in range(chunks):
                next(speech)


def cancel_from_elsewhere(server: Served, client: Client) -> None:
    speech = client.speak(LONG, request_id="of another")
    stream = next(speech).stats.stream
    assert client.cancel(stream=stream) == 1
    with pytest.raises(Cancelled):
        list(speech)
    assert client.cancel(stream=stream) == 0


def cancel_many(server: Served, client: Client) -> None:
    """More than there are slots: some are cancelled while they wait."""
    speeches = [client.speak(LONG) for _ in range(24)]
    next(speeches[0])
    for speech in speeches:
        speech.cancel()
    for speech in speeches:
        with pytest.raises(Cancelled):
            list(speech)
        speech.close()


def vanish(server: Served, client: Client) -> None:
    with RawStream(server.grpc, speech_request(LONG)) as stream:
        stream.first()


ENDS: list[Callable[[Served, Client], None]] = [
    finish,
    refuse,
    pass_a_deadline,
    fail_a_window,
    cancel_before_the_first_chunk,
    cancel_in_the_middle,
    cancel_from_elsewhere,
    cancel_many,
]


@pytest.fixture(scope="module")
def polite_server() -> Iterator[Served]:
    """A server that nobody leaves without a word; when the module is done, it stops at once."""
    with served(["--exit-timeout", EXIT_TIMEOUT_S]) as running:
        yield running


@pytest.fixture(scope="module")
def polite_client(polite_server: Served) -> Iterator[Client]:
    with Client(polite_server.grpc) as connected:
        yield connected


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_nothing_stays_of_a_stream_that_ended(
    end: Callable[[Served, Client], None], polite_server: Served, polite_client: Client
) -> None:
    end(polite_server, polite_client)
    wait_until_idle(polite_server, polite_client)


def test_after_polite_ends_the_server_stops_at_once(polite_server: Served, polite_client: Client) -> None:
    """Triton waits for requests in flight until its exit timeout: an early, clean exit proves that there are none."""
    for end in ENDS:
        end(polite_server, polite_client)
    wait_until_idle(polite_server, polite_client)
    polite_client.close()
    polite_server.ask_to_stop()
    assert polite_server.exit_status(limit_s=EXIT_TIMEOUT_S) == 0
    assert polite_server.log.endswith("\nstopped")


def test_rude_clients_leak_a_little_and_the_server_goes_on() -> None:
    """On Triton 24.10 a request whose client vanished is never released; the figure is printed."""
    with served(["--exit-timeout", "1"]) as server, Client(server.grpc) as client:
        _leave_rudely(server, client, 5)
        before = server.resident_bytes()
        _leave_rudely(server, client, RUDE_CLIENTS)
        after = server.resident_bytes()
        grown = {name: (after[name] - before[name]) // RUDE_CLIENTS for name in before}
        print(f"bytes left by a rude client, of {RUDE_CLIENTS}: {sum(grown.values()):,} ({grown})")
        assert sum(grown.values()) < 1_000_000
        speak(client, SENTENCES[0], max_seconds=1.0)
        client.close()
        server.ask_to_stop()
        assert server.exit_status() == 0
        assert "Triton still counted requests in flight at its exit timeout" in server.log


def _leave_rudely(server: Served, client: Client, count: int) -> None:
    """Clients that are killed while they listen."""
    for _ in range(0, count, 5):
        killed = [_listening_process(server) for _ in range(5)]
        for process in killed:
            process.kill()
            process.communicate()
        wait_until_idle(server, client)


def _listening_process(server: Served) -> "subprocess.Popen[str]":
    script = (
        "import sys; from talkahead_client import Client\n"
        "speech = Client(sys.argv[1]).speak(sys.argv[2])\n"
        "print(next(speech).index, flush=True)\n"
        "list(speech)\n"
    )
    command = [sys.executable, "-c", script, server.grpc, LONG]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "0\n"
    return process


def _tell_talker_of_failures(server: Served, stream: int) -> None:
    """Negative acknowledgements for every chunk that the stream may have in flight."""
    import socket

    [talker] = rendezvous_folder(server.server_pid).glob("talker-*.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as vocoder:
        for generation in range(1, 200):
            for chunk in range(64):
                vocoder.sendto(encode(WindowDone(stream, generation, chunk, ok=False)), str(talker))


def test_slots_of_clients_that_vanish_are_freed(server: Served, client: Client) -> None:
    for _ in range(3):
        vanish(server, client)
    wait_until_idle(server, client)
