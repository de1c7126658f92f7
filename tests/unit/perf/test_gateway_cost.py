"""The doors' clients through a real gateway before a scripted Triton, and what is made of what they hear."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from fake_triton import SAMPLES, FakeTriton
from talkahead_client import Client, Figures, SpeechError

from instruments.gateway import Gateway, gateway_before
from perf import gateway as command
from perf.doors import (
    RATE_HZ,
    ElevenLabsDoor,
    ElevenLabsWriting,
    Mp3,
    OneClause,
    OpenAiDoor,
    OpenAiEvents,
    RivaDoor,
    mp3_delay_ms,
    wav,
)
from perf.gateway import Addition, Difference
from perf.part import Part
from perf.streams import Mode, Speaker
from perf.utterance import Utterance

TEXT = "One, two. And three."
Open = Callable[[Gateway], AbstractContextManager[Speaker]]

EXACT: dict[str, Open] = {
    "pcm": lambda gateway: nullcontext(OpenAiDoor(gateway.http, "pcm")),
    "wav": lambda gateway: nullcontext(OpenAiDoor(gateway.http, "wav", wav)),
    "sse": lambda gateway: nullcontext(OpenAiEvents(gateway.http)),
    "riva": lambda gateway: RivaDoor(gateway.riva),
    "whole": lambda gateway: nullcontext(OneClause(ElevenLabsDoor(gateway.http))),
    "written": lambda gateway: nullcontext(OneClause(ElevenLabsWriting(gateway.http))),
}


@pytest.fixture(scope="module")
def scripted() -> Iterator[FakeTriton]:
    server = FakeTriton()
    yield server
    server.close()


@pytest.fixture(scope="module")
def gateway(scripted: FakeTriton) -> Iterator[Gateway]:
    with gateway_before(scripted.address) as started:
        yield started


@pytest.mark.parametrize("door", EXACT)
def test_doors_hear_what_the_client_hears(gateway: Gateway, scripted: FakeTriton, door: str) -> None:
    scripted.streams.clear()
    with Client(scripted.address) as client, EXACT[door](gateway) as speaker:
        own = list(client.speak(TEXT, voice="slt", seed=5))
        chunks = list(speaker.speak(TEXT, voice="slt", seed=5))
    assert [chunk.index for chunk in chunks] == list(range(len(chunks))) and len(chunks) > 1
    difference = np.concatenate([one.audio for one in chunks]) - np.concatenate([one.audio for one in own])
    assert np.abs(difference).max() < 1e-4
    assert 0 < chunks[0].elapsed_s <= chunks[-1].elapsed_s
    _, asked = scripted.streams
    assert asked.request.parameters["seed"].int64_param == 5
    assert asked.text == ("One two And three." if door in ("whole", "written") else TEXT)


def test_mp3_is_heard_behind_its_delay(gateway: Gateway) -> None:
    chunks = list(OpenAiDoor(gateway.http, "mp3", Mp3).speak(TEXT, voice="slt"))
    heard = sum(len(chunk.audio) for chunk in chunks)
    assert heard >= 3 * SAMPLES + mp3_delay_ms() * RATE_HZ / 1e3
    assert mp3_delay_ms() == pytest.approx(529 / 24, abs=0.1)


@pytest.mark.parametrize("door", EXACT)
def test_what_is_refused_is_a_failure(gateway: Gateway, door: str) -> None:
    with EXACT[door](gateway) as speaker, pytest.raises(SpeechError):
        list(speaker.speak(TEXT, voice="nobody"))


def test_the_command_prints_tables_and_keeps_the_samples(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "gateway.json"
    arguments = ["--server", triton.address, "--streams", "1", "--seconds", "0", "--slices", "2"]
    assert command.main([*arguments, "--out", str(out)]) in (0, 1)
    shown = capsys.readouterr().out
    kept = json.loads(out.read_text())
    doors = ["OpenAI pcm", "OpenAI wav", "OpenAI mp3", "OpenAI sse", "ElevenLabs", "Riva"]
    names = [cell["configuration"] for cell in kept["results"]]
    assert names == ["gRPC", *doors, "a clause, whole", "a clause, word by word"]
    assert [one["door"] for one in kept["settings"]["additions"]] == [*doors, names[-1]]
    assert [bool(cell["pairs"]) for cell in kept["results"]] == [True] + [False] * 8
    assert all(cell["failed"] == 0 and cell["spoken"] == 2 for cell in kept["results"])
    assert all(name in shown for name in names) and "may add" in shown


def test_a_part_is_measured_alone(triton: FakeTriton, tmp_path: Path) -> None:
    out = tmp_path / "gateway.json"
    arguments = ["writing", "--server", triton.address, "--streams", "1", "--seconds", "0", "--slices", "1"]
    assert command.main([*arguments, "--out", str(out)]) in (0, 1)
    kept = json.loads(out.read_text())
    assert [cell["configuration"] for cell in kept["results"]] == [
        "a clause, whole",
        "a clause, word by word",
    ]
    assert kept["settings"]["what"] == ["writing"]


def test_a_bound_is_kept_apart_from_what_the_codec_takes() -> None:
    def addition(p50: float, p95: float, many_floor_ms: float | None) -> Addition:
        differences = (Difference(value, value, value) for value in (p50, p95))
        return Addition("OpenAI mp3", "gRPC", Mode.PLAYING, 16, *differences, 46.0, 10.0, many_floor_ms)

    assert addition(56.0, 99.0, None).is_kept and not addition(56.1, 50.0, None).is_kept
    assert addition(50.0, 61.0, 15.0).is_kept and not addition(50.0, 61.1, 15.0).is_kept


def test_each_utterance_is_compared_with_its_twin() -> None:
    """One has failed, so that what follows on its stream has another place."""

    def part(*heard: tuple[int, float | None]) -> Part:
        return Part(1.0, [utterance(stream, audible_ms) for stream, audible_ms in heard])

    direct = part((0, 50.0), (0, 900.0), (0, 60.0), (1, 70.0))
    door = part((0, 52.0), (0, None), (0, 63.0), (1, 74.0), (1, 80.0))
    assert Difference.of_twins([door, door], [direct, direct]).value == 3.0
    assert Difference.of_tails([door], [part((0, 74.0))]).value == pytest.approx(79.1 - 74.0)


def utterance(stream: int, audible_ms: float | None) -> Utterance:
    figures = None if audible_ms is None else Figures(40.0, audible_ms, 400.0, 2.0, 0.2, 9, 0, 0.0)
    return Utterance(stream, 0, 0.0, figures, None, None, (), (), ())
