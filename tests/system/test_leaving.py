"""Streams that end in whatever way: nothing of them stays, and the server still stops cleanly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from faults import Faults, leaking_talker
from hearing import SAME_FRAMES, difference, hear, speak
from idle import wait_until_idle
from raw import RawStream, speech_request, tensors_of
from served import Served, served
from talkahead_client import AudioChunk, Cancelled, Client, InvalidRequest, ServerFailure
from texts import SENTENCES, prose

from perf import vanishing
from perf.vanishing import Growth, Leaving

LONG = " ".join(SENTENCES)
EXIT_TIMEOUT_S = 20
RUDE_STREAMS, RUDE_ROUNDS = 15, 2
LEAK_BYTES = 500_000


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
    wait_until_idle(polite_client, polite_server)


def test_after_polite_ends_the_server_stops_at_once(
    faults: Faults, polite_server: Served, polite_client: Client
) -> None:
    """Triton waits up to its exit timeout for requests in flight: an early exit shows that none is."""
    for end in ENDS:
        end(faults, polite_client)
    wait_until_idle(polite_client, polite_server)
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


def test_what_is_kept_of_clients_shows(tmp_path: Path) -> None:
    """The measure of the test above, of a talker that leaks on purpose."""
    with served("--repository", leaking_talker(tmp_path, LEAK_BYTES)) as server:
        polite = (Leaving.POLITE,)
        rounds = vanishing.measure(server.grpc, server.resident_bytes, RUDE_STREAMS, 1, polite)
        assert Growth.of(Leaving.POLITE, rounds).bytes_per_client > LEAK_BYTES


def test_slots_of_clients_that_vanish_are_freed(server: Served, client: Client) -> None:
    for _ in range(3):
        vanish(server, client)
    wait_until_idle(client, server)


def test_who_cancels_a_stream_of_many_chunks_has_heard_some_and_not_all(client: Client) -> None:
    """What was heard is what the whole begins with, and nothing comes after the end."""
    text, settings = prose(2_000), {"seed": 5, "chunk_frames": 10}
    whole = speak(client, text, **settings)
    assert len(whole.chunks) > 32
    heard = list[AudioChunk]()
    with client.speak(text, **settings) as speech:
        with pytest.raises(Cancelled):
            for chunk in speech:
                heard.append(chunk)
                if len(heard) == 3:
                    speech.cancel()
        assert list(speech) == []
    assert 3 <= len(heard) < len(whole.chunks)
    for one, other in zip(heard, whole.chunks, strict=False):
        assert difference(one.audio, other.audio) < SAME_FRAMES


def test_a_reader_that_stops_holds_nobody_up(server: Served, client: Client) -> None:
    """Its stream is spoken to the end into what the connection holds, others meanwhile as alone; when it
    reads on, everything is there, once."""
    alone, text = speak(client, SENTENCES[0], seed=5), prose(1_000)
    whole = speak(client, text, seed=5)
    with RawStream(server.grpc, speech_request(text, parameters={"seed": 5})) as stream:
        responses = iter(stream)
        heard = [next(responses)]
        for _ in range(3):
            beside = speak(client, SENTENCES[0], seed=5)
            assert difference(beside.audio, alone.audio) < SAME_FRAMES
        wait_until_idle(client, server)
        heard += [one for one in responses if one.outputs]
    audio = np.concatenate([tensors_of(one)["AUDIO"] for one in heard])
    assert len(heard) == len(whole.chunks) and difference(audio, whole.audio) < SAME_FRAMES


def test_of_sixteen_most_leave_in_their_ways_and_the_last_hears_what_it_hears_alone(
    server: Served, client: Client
) -> None:
    """Some vanish, and some pass their deadlines."""
    alone = speak(client, LONG, seed=5)
    rude = [RawStream(server.grpc, speech_request(LONG)) for _ in range(7)]
    late = [client.speak(LONG, deadline_ms=400) for _ in range(8)]
    with client.speak(LONG, seed=5) as stays:
        heard = [next(stays)]
        for stream in rude:
            stream.vanish()
        for speech in late:
            with pytest.raises(Cancelled, match="deadline_ms: 400 ms"):
                list(speech)
        heard += list(stays)
    assert difference(hear(heard).audio, alone.audio) < SAME_FRAMES
    wait_until_idle(client, server)
