"""The asyncio client and the command line against the real server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from hearing import SAME_FRAMES, Utterance, difference, speak
from served import Served
from talkahead_client import AsyncClient, Client, InvalidRequest
from texts import SENTENCES
from waiting import eventually

LIMIT_S = 60.0
QUANTISED = 1 / 32_767


async def test_asyncio_client_hears_many_streams_at_once(server: Served, client: Client) -> None:
    alone = [speak(client, text, seed=seed).audio for seed, text in enumerate(SENTENCES[:4])]
    async with AsyncClient(server.grpc) as asynchronous:

        async def listen(seed: int) -> Utterance:
            return Utterance(tuple([chunk async for chunk in asynchronous.speak(SENTENCES[seed], seed=seed)]))

        together = await asyncio.gather(*(listen(seed) for seed in range(4)))
    for utterance, audio in zip(together, alone, strict=True):
        assert difference(utterance.check().audio, audio) < SAME_FRAMES


async def test_cancelled_task_ends_its_stream_on_the_server(server: Served, client: Client) -> None:
    started = asyncio.Event()
    async with AsyncClient(server.grpc) as asynchronous:

        async def listen() -> None:
            async for _ in asynchronous.speak(" ".join(SENTENCES)):
                started.set()

        task = asyncio.create_task(listen())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    eventually(lambda: client.load().details["open_streams"], lambda streams: streams == 0)


async def test_asyncio_client_is_told_why_a_request_is_refused(server: Served) -> None:
    async with AsyncClient(server.grpc) as asynchronous:
        with pytest.raises(InvalidRequest, match="temperature: 9"):
            async for _ in asynchronous.speak("Hello.", temperature=9.0):
                pass


def say(server: Served, *arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "talkahead_client.say", "--server", server.grpc, *map(str, arguments)]
    return subprocess.run(command, input=text.encode(), capture_output=True, timeout=LIMIT_S)


def test_command_writes_a_wav_file_and_its_figures(server: Served, client: Client, tmp_path: Path) -> None:
    out = tmp_path / "out.wav"
    done = say(server, "--json", "--seed", "5", "-o", out, SENTENCES[0])
    assert done.returncode == 0, done.stderr
    audio = speak(client, SENTENCES[0], seed=5).audio
    with wave.open(str(out)) as file:
        assert (file.getframerate(), file.getnchannels()) == (client.sample_rate_hz(), 1)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert difference((samples / 32_767).astype(np.float32), audio) <= QUANTISED
    assert json.loads(done.stdout)["audio_s"] == pytest.approx(len(audio) / client.sample_rate_hz())


def test_command_pipes_raw_samples_of_standard_input(server: Served, client: Client) -> None:
    done = say(server, "--seed", "5", "-o", "-", text=SENTENCES[0])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == 2 * len(speak(client, SENTENCES[0], seed=5).audio)


def test_command_speaks_many_lines_in_parallel(server: Served, tmp_path: Path) -> None:
    done = say(server, "--jobs", "4", "-o", tmp_path / "line.wav", text="\n".join(SENTENCES[:6]))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"line-{n:04d}.wav" for n in range(1, 7)]


def test_command_says_why_it_is_refused(server: Served, tmp_path: Path) -> None:
    done = say(server, "-o", tmp_path / "out.wav", "--voice", "nobody", SENTENCES[0])
    assert done.returncode == 2
    assert b"VOICE: 'nobody' is not accepted" in done.stderr
    assert list(tmp_path.iterdir()) == []
