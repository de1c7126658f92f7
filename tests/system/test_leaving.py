"""Streams that end in whatever way: nothing of them stays, and the server still stops cleanly."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from hearing import speak
from raw import RawStream, speech_request
from served import Served, served
from talkahead.engine.engine_config import EngineConfig
from talkahead.transport.messages import WindowDone, encode
from talkahead_client import Cancelled, Client, InvalidRequest, ServerFailure
from texts import SENTENCES, prose
from waiting import eventually

from perf import vanishing
from perf.vanishing import Growth, Leaving

LONG = " ".join(SENTENCES)
GAUGES = ("talkahead_active_streams", "talkahead_queued_streams", "talkahead_open_streams")
LOADS = ("active", "queued", "open_streams", "windows_in_flight")
WINDOWS_OF_A_STREAM = EngineConfig.max_windows_per_stream
EXIT_TIMEOUT_S = 20
RUDE_STREAMS, RUDE_ROUNDS = 15, 2
LEAK_BYTES = 500_000


def wait_until_idle(server: Served, client: Client) -> None:
    """No slot taken, no stream open, no window unacknowledged: as the talker and the metrics page report."""

    def busy() -> dict[str, float]:
        details = client.load().details
        counts = {name: details[name] for name in LOADS} | {name: server.metric(name) for name in GAUGES}
        return {name: count for name, count in counts.items() if count}

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
    """A vocoder that fails on one window in the middle of a stream, as the talker hears of it."""
    with client.speak(LONG) as speech:
        stream = next(speech).stats.stream
        with server.paused("vocoder"):
            # More where the launcher asks for a syllable meanwhile, after the error of an earlier end.
            eventually(windows_in_flight(client), lambda windows: windows >= WINDOWS_OF_A_STREAM)
            _fail_oldest_window(server, client, stream)
        with pytest.raises(ServerFailure, match="the vocoder failed on chunk"):
            list(speech)


def windows_in_flight(client: Client) -> Callable[[], int]:
    return lambda: int(client.load().details["windows_in_flight"])


def _fail_oldest_window(server: Served, client: Client, stream: int) -> None:
    """Negative acknowledgements for one chunk after another, until one was awaited."""
    [talker] = server.meeting_place.glob("talker-*.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as vocoder:
        for chunk in range(100):
            before = windows_in_flight(client)()
            # A client cannot know the generation, which counts streams.
            for generation in range(1, 300):
                vocoder.sendto(encode(WindowDone(stream, generation, chunk, ok=False)), str(talker))
            if windows_in_flight(client)() < before:
                return
    raise AssertionError("no window of the stream was awaited")


def cancel_before_the_first_chunk(server: Served, client: Client) -> None:
    speech = client.speak(LONG)
    speech.close()


def cancel_in_the_middle(server: Served, client: Client) -> None:
    for chunks in (1, 2, 5):
        with client.speak(LONG) as speech:
            for _ in range(chunks):
                next(speech)


def cancel_a_very_long_text(server: Served, client: Client) -> None:
    """Most of its segments are still on their way through the models."""
    with client.speak(prose(20_000)) as speech:
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
    cancel_a_very_long_text,
    cancel_from_elsewhere,
    cancel_many,
]


@pytest.fixture(scope="module")
def polite_server() -> Iterator[Served]:
    """A server that nobody leaves without a word; when the module is done, it stops at once."""
    with served("--exit-timeout", EXIT_TIMEOUT_S) as running:
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
    """Triton waits up to its exit timeout for requests in flight: an early exit shows that none is."""
    for end in ENDS:
        end(polite_server, polite_client)
    wait_until_idle(polite_server, polite_client)
    polite_client.close()
    polite_server.ask_to_stop()
    assert polite_server.exit_status(limit_s=EXIT_TIMEOUT_S) == 0
    assert polite_server.log.endswith("\nstopped")


def test_rude_clients_leak_a_little_and_the_server_goes_on() -> None:
    """On Triton 24.10 a request whose client vanished is never released; the figure is printed."""
    with served("--exit-timeout", "1") as server, Client(server.grpc) as client:
        rude = (Leaving.VANISHED,)
        rounds = vanishing.measure(server.grpc, server.resident_bytes, RUDE_STREAMS, RUDE_ROUNDS, rude)
        growth = Growth.of(Leaving.VANISHED, rounds)
        print(f"bytes left by a rude client, of {growth.clients}: {growth.bytes_per_client:,.0f}")
        assert growth.clients == RUDE_ROUNDS * RUDE_STREAMS
        assert growth.bytes_per_client < LEAK_BYTES
        speak(client, SENTENCES[0], max_seconds=1.0)
        client.close()
        server.ask_to_stop()
        assert server.exit_status() == 0
        assert "Triton still counted requests in flight at its exit timeout" in server.log


def test_slots_of_clients_that_vanish_are_freed(server: Served, client: Client) -> None:
    for _ in range(3):
        vanish(server, client)
    wait_until_idle(server, client)
