"""The synchronous client: leaving early, many at once, control."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_triton import RATE_HZ, FakeTriton, speaks, stalls
from talkahead_client import Cancelled, Client, InvalidRequest, ServerUnavailable, patience


def _assert_left_politely(triton: FakeTriton) -> None:
    stream = triton.streams[-1]
    assert stream.over.wait(2)
    assert stream.cancelled.is_set() and not stream.is_cut
    assert triton.commands[-1] == {"COMMAND": "cancel", "REQUEST_ID": stream.request.id}


def test_break_cancels_politely_and_at_once(triton: FakeTriton) -> None:
    triton.script = stalls(3)
    with Client(triton.address) as client:
        for chunk in client.speak("Hello."):
            if chunk.index == 1:
                break
        _assert_left_politely(triton)


def test_leaving_after_the_last_chunk_cancels_nothing(triton: FakeTriton) -> None:
    with Client(triton.address) as client:
        for _ in range(20):
            assert len(list(client.speak("Hello."))) == 3
            for chunk in client.speak("Hello."):
                if chunk.is_last:
                    break
    assert triton.commands == []


def test_an_exception_in_the_loop_cancels(triton: FakeTriton) -> None:
    triton.script = stalls(3)
    with Client(triton.address) as client:
        with pytest.raises(ZeroDivisionError):
            for chunk in client.speak("Hello."):
                _ = 1 / chunk.index
        _assert_left_politely(triton)


def test_close_before_the_first_chunk(triton: FakeTriton) -> None:
    triton.script = stalls(0)
    triton.deaf_for = 2
    with Client(triton.address) as client:
        speech = client.speak("Hello.", request_id="mine")
        assert speech.request_id == "mine"
        speech.close()
        assert list(speech) == []
        assert triton.commands == 3 * [{"COMMAND": "cancel", "REQUEST_ID": "mine"}]
        _assert_left_politely(triton)


def test_a_cancel_that_is_answered_too_late_is_asked_again(triton: FakeTriton) -> None:
    triton.script = stalls(1)
    triton.is_late_for = 2
    with Client(triton.address) as client:
        client.speak("Hello.").close()
        assert len(triton.commands) == 1
        _assert_left_politely(triton)


def test_closing_the_client_ends_what_runs(triton: FakeTriton) -> None:
    triton.script = stalls(1)
    client = Client(triton.address)
    speeches = [client.speak("Hello.") for _ in range(3)]
    for speech in speeches:
        next(speech)
    client.close()
    assert all(stream.over.wait(1) and not stream.is_cut for stream in triton.streams)
    with pytest.raises(Cancelled):
        next(speeches[0])
    client.close()


def test_cancel_from_another_thread_wakes_the_reader(triton: FakeTriton) -> None:
    triton.script = stalls(2)
    with Client(triton.address) as client:
        speech = client.speak("Hello.")
        next(speech)
        next(speech)
        timer = threading.Timer(0.05, speech.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            next(speech)
        with pytest.raises(StopIteration):
            next(speech)
        timer.join()


def test_cancel_drops_what_has_not_been_played(triton: FakeTriton) -> None:
    triton.script = stalls(3)
    with Client(triton.address) as client, client.speak("Hello.") as speech:
        next(speech)
        speech.cancel()
        with pytest.raises(Cancelled):
            next(speech)


def test_a_server_that_does_not_end_a_cancelled_stream_is_cut_off(
    triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("talkahead_client.client.FAREWELL_S", 0.1)
    triton.script = stalls(1)
    triton.deaf_for = 100
    with Client(triton.address) as client:
        began = time.perf_counter()
        client.speak("Hello.").close()
        assert time.perf_counter() - began < sum(patience.CANCEL_PAUSES_S) + 5
    assert triton.streams[0].over.wait(1) and triton.streams[0].is_cut


def test_many_at_once_get_their_own(triton: FakeTriton) -> None:
    triton.script = lambda stream: speaks(len(stream.text))(stream)
    with Client(triton.address) as client, ThreadPoolExecutor(16) as pool:
        lengths = [1 + number % 7 for number in range(48)]
        spoken = list(pool.map(lambda length: len(list(client.speak("x" * length))), lengths))
    assert spoken == lengths
    assert len({stream.request.id for stream in triton.streams}) == len(lengths)


def test_a_slow_player_holds_nothing_up(triton: FakeTriton) -> None:
    triton.script = speaks(5)
    with Client(triton.address) as client:
        arrivals = []
        for chunk in client.speak("Hello."):
            time.sleep(0.1)
            arrivals.append(chunk.elapsed_s)
    assert arrivals[-1] - arrivals[0] < 0.3


def test_control(triton: FakeTriton) -> None:
    with Client(triton.address) as client:
        assert client.voices() == ("slt", "rms")
        assert client.sample_rate_hz() == RATE_HZ
        load = client.load()
        assert (load.active, load.queued, load.predicted_first_chunk_ms) == (2, 1, 41.5)
        assert load.details["slots"] == 16
        assert client.cancel(stream=2**62 + 1) == 0
        assert client.cancel(request_id="nobody") == 0
        assert triton.commands[-2:] == [
            {"COMMAND": "cancel", "STREAM": 2**62 + 1},
            {"COMMAND": "cancel", "REQUEST_ID": "nobody"},
        ]
        with pytest.raises(InvalidRequest):
            client.cancel()
        with pytest.raises(InvalidRequest):
            client.cancel(stream=1, request_id="both")


def test_no_server() -> None:
    with Client("127.0.0.1:1") as client:
        with pytest.raises(ServerUnavailable):
            next(client.speak("Hello."))
        with pytest.raises(ServerUnavailable):
            client.voices()
