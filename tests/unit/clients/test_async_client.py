"""The asyncio client: leaving early, many at once, control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fake_triton import RATE_HZ, FakeStream, FakeTriton, chunk, final, speaks, stalls
from talkahead_client import (
    AsyncClient,
    AsyncSpeech,
    AudioChunk,
    Cancelled,
    InvalidRequest,
    ServerUnavailable,
    aio,
    reception,
)


async def _assert_left_politely(triton: FakeTriton) -> None:
    stream = triton.streams[-1]
    assert await asyncio.to_thread(stream.over.wait, 2)
    assert stream.cancelled.is_set() and not stream.is_cut
    assert triton.commands[-1] == {"COMMAND": "cancel", "REQUEST_ID": stream.request.id}


async def _all(speech: AsyncSpeech) -> list[AudioChunk]:
    return [chunk async for chunk in speech]


async def _all_after(speech: AsyncSpeech, has_begun: asyncio.Event) -> None:
    """Hears everything; the event is set by the first chunk."""
    async for _ in speech:
        has_begun.set()


async def test_break_cancels_politely(triton: FakeTriton) -> None:
    triton.script = stalls(3)
    async with AsyncClient(triton.address) as client:
        async for chunk in client.speak("Hello."):
            if chunk.index == 1:
                break
        await _assert_left_politely(triton)


async def test_cancelling_the_task_cancels_the_stream(triton: FakeTriton) -> None:
    triton.script = stalls(2)
    async with AsyncClient(triton.address) as client:
        has_begun = asyncio.Event()
        task = asyncio.create_task(_all_after(client.speak("Hello."), has_begun))
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _assert_left_politely(triton)


async def test_cancel_wakes_the_reader(triton: FakeTriton) -> None:
    triton.script = stalls(0)
    triton.deaf_for = 1
    async with AsyncClient(triton.address) as client:
        speech = client.speak("Hello.", request_id="mine")
        asyncio.get_running_loop().call_later(0.05, speech.cancel)
        with pytest.raises(Cancelled):
            await anext(speech)
        with pytest.raises(StopAsyncIteration):
            await anext(speech)
        await speech.close()
        assert triton.commands == 2 * [{"COMMAND": "cancel", "REQUEST_ID": "mine"}]
        await _assert_left_politely(triton)


async def test_a_cancel_that_is_answered_too_late_is_asked_again(triton: FakeTriton) -> None:
    triton.script = stalls(1)
    triton.is_late_for = 2
    async with AsyncClient(triton.address) as client:
        await client.speak("Hello.").close()
        assert len(triton.commands) == 1
        await _assert_left_politely(triton)


async def test_closing_the_client_ends_what_runs(triton: FakeTriton) -> None:
    triton.script = stalls(1)
    async with AsyncClient(triton.address) as client:
        async with client.speak("Hello.") as one:
            await anext(one)
        other = client.speak("Hello.")
        await anext(other)
    assert all(stream.over.wait(1) and not stream.is_cut for stream in triton.streams)
    with pytest.raises(Cancelled):
        await anext(other)


async def test_a_server_that_does_not_end_a_cancelled_stream_is_cut_off(
    triton: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("talkahead_client.aio.FAREWELL_S", 0.1)
    triton.script = stalls(1)
    triton.deaf_for = 100
    async with AsyncClient(triton.address) as client:
        async with asyncio.timeout(5):
            await client.speak("Hello.").close()
    assert triton.streams[0].over.wait(1) and triton.streams[0].is_cut


async def test_many_at_once_get_their_own(triton: FakeTriton) -> None:
    triton.script = lambda stream: speaks(len(stream.text))(stream)
    lengths = [1 + number % 7 for number in range(48)]
    async with AsyncClient(triton.address) as client:
        spoken = await asyncio.gather(*(_all(client.speak("x" * length)) for length in lengths))
    assert [len(chunks) for chunks in spoken] == lengths


async def test_control(triton: FakeTriton) -> None:
    async with AsyncClient(triton.address) as client:
        assert await client.voices() == ("slt", "rms")
        assert await client.sample_rate_hz() == RATE_HZ
        assert (await client.load()).queued == 1
        assert await client.cancel(request_id="nobody") == 0
        with pytest.raises(InvalidRequest):
            await client.cancel()


async def test_no_server() -> None:
    async with AsyncClient("127.0.0.1:1") as client:
        with pytest.raises(ServerUnavailable):
            await anext(client.speak("Hello."))
        with pytest.raises(ServerUnavailable):
            await client.voices()


LONG_S = 10.0
NUM_LONG = 40


class Replies:
    """In place of a connection: chunks of `LONG_S`, each made when it is read."""

    def __init__(self) -> None:
        self.num_read = 0

    def ModelStreamInfer(self, requests: Iterator[Any], metadata: object) -> AsyncIterator[Any]:
        return self._replies()

    async def _replies(self) -> AsyncIterator[Any]:
        for index in range(NUM_LONG):
            self.num_read += 1
            yield chunk(index, samples=round(LONG_S * RATE_HZ), is_last=index == NUM_LONG - 1)
        yield final()


async def test_what_nobody_takes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = Replies()
    now_s = 0.0
    monkeypatch.setattr(reception.time, "perf_counter", lambda: now_s)
    async with AsyncClient("127.0.0.1:1") as client:
        client._stub = replies
        speech = client.speak("Hello.", chunk_deadline_s=5.0)
        await anext(speech)
        bound = aio.MAX_WAITING_S / LONG_S
        # The reader never waits for anything but room.
        for _ in range(NUM_LONG):
            await asyncio.sleep(0)
        assert replies.num_read == bound + 1
        now_s = 100.0
        # The clock of the deadline stood still meanwhile: what waits is taken at once, then the rest read.
        assert len(await _all(speech)) == NUM_LONG - 1
        assert replies.num_read == NUM_LONG


async def test_a_speech_that_was_not_taken_is_left_as_any_other(triton: FakeTriton) -> None:
    triton.script = _long_winded
    async with AsyncClient(triton.address) as client:
        async with client.speak("Hello.") as speech:
            await anext(speech)
        await _assert_left_politely(triton)


def _long_winded(stream: FakeStream) -> Iterator[Any]:
    for index in range(NUM_LONG):
        if stream.cancelled.is_set():
            break
        yield chunk(index, samples=round(LONG_S * RATE_HZ))
    yield from stalls(0)(stream)
