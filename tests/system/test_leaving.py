"""Streams that end in whatever way: nothing of them stays, and the server still stops cleanly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from faults import Faults
from hearing import speak
from raw import RawStream, speech_request
from served import Served, served
from talkahead_client import Cancelled, Client, InvalidRequest, ServerFailure
from texts import SENTENCES, prose
from waiting import eventually

from perf import vanishing
from perf.vanishing import Growth, Leaving

LONG = " ".join(SENTENCES)
GAUGES = ("talkahead_active_streams", "talkahead_queued_streams", "talkahead_open_streams")
LOADS = ("active", "queued", "open_streams", "windows_in_flight")
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


def finish(faults: Faults, client: Client) -> None:
    speak(client, SENTENCES[0], max_seconds=1.0)


def refuse(faults: Faults, client: Client) -> None:
    with pytest.raises(InvalidRequest):
        speak(client, "")


def pass_a_deadline(faults: Faults, client: Client) -> None:
    """An error of the talker, in the middle of a stream or before it began."""
    for deadline_ms in (1, 60, 150, 300):
        with pytest.raises(Cancelled, match=f"deadline_ms: {deadline_ms} ms"):
            speak(client, LONG, deadline_ms=deadline_ms)


def fail_a_window(faults: Faults, client: Client) -> None:
    """In the middle of a stream. Its vocoder is never paused: for one that is, for some tenths of a second
    alone, Triton 24.10 now and then keeps a request that it never releases.
    """
    with client.speak(LONG) as speech:
        next(speech)
        faults.strike("window")
        with pytest.raises(ServerFailure, match="the vocoder failed on chunk"):
            list(speech)


def cancel_before_the_first_chunk(faults: Faults, client: Client) -> None:
    speech = client.speak(LONG)
    speech.close()


def cancel_in_the_middle(faults: Faults, client: Client) -> None:
    for chunks in (1, 2, 5):
        with client.speak(LONG) as speech:
            for _ in range(chunks):
                next(speech)


def cancel_a_very_long_text(faults: Faults, client: Client) -> None:
    """Most of its segments are still on their way through the models."""
    with client.speak(prose(20_000)) as speech:
        next(speech)


def cancel_from_elsewhere(faults: Faults, client: Client) -> None:
    speech = client.speak(LONG, request_id="of another")
    stream = next(speech).stats.stream
    assert client.cancel(stream=stream) == 1
    with pytest.raises(Cancelled):
        list(speech)
    assert client.cancel(stream=stream) == 0


def cancel_many(faults: Faults, client: Client) -> None:
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


ENDS: list[Callable[[Faults, Client], None]] = [
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
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def polite_server(faults: Faults) -> Iterator[Served]:
    """A server that nobody leaves without a word; when the module is done, it stops at once."""
    with served("--repository", faults.repository, "--exit-timeout", EXIT_TIMEOUT_S) as running:
        yield running


@pytest.fixture(scope="module")
def polite_client(polite_server: Served) -> Iterator[Client]:
    with Client(polite_server.grpc) as connected:
        yield connected


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_nothing_stays_of_a_stream_that_ended(
    end: Callable[[Faults, Client], None], faults: Faults, polite_server: Served, polite_client: Client
) -> None:
    end(faults, polite_client)
    wait_until_idle(polite_server, polite_client)


def test_after_polite_ends_the_server_stops_at_once(
    faults: Faults, polite_server: Served, polite_client: Client
) -> None:
    """Triton waits up to its exit timeout for requests in flight: an early exit shows that none is."""
    for end in ENDS:
        end(faults, polite_client)
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
