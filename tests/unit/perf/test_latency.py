"""The load generator against a scripted Triton, and what is made of its samples."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from fake_triton import FakeStream, FakeTriton, chunk
from talkahead_client import Client

from instruments.server import Server
from perf import latency
from perf.load import Load, Mode
from perf.texts import TEXTS


def _speaks_with_a_pause(stream: FakeStream) -> Iterator[object]:
    """A first chunk of 20 ms, the rest 60 ms later: the stream runs dry."""
    yield chunk(0, samples=320)
    time.sleep(0.06)
    yield chunk(1, samples=1280, is_last=True, is_final=True)


def test_closed_loop_keeps_the_server_busy(triton: FakeTriton) -> None:
    triton.script = _speaks_with_a_pause
    with Client(triton.address) as client:
        utterances = Load(Mode.CLOSED, 2, 0.3, None, {"seed": 3}).run(client)
    assert {utterance.stream for utterance in utterances} == {0, 1}
    assert 4 <= len(utterances) <= 12
    assert {stream.text for stream in triton.streams} <= set(TEXTS)
    assert all(stream.request.parameters["seed"].int64_param == 3 for stream in triton.streams)
    (gap,) = utterances[0].gaps_ms
    assert gap >= 55
    assert utterances[0].figures is not None and utterances[0].figures.dry_chunks == 1


def test_playing_streams_wait_until_the_last_has_been_played(triton: FakeTriton) -> None:
    triton.script = _speaks_with_a_pause
    with Client(triton.address) as client:
        utterances = Load(Mode.PLAYING, 1, 0.5, None, {}).run(client)
    starts = [utterance.started_s for utterance in utterances]
    # 60 ms until the second chunk, 80 ms to play it
    assert all(later - earlier >= 0.13 for earlier, later in pairwise(starts))


def test_an_error_is_a_sample_too(triton: FakeTriton) -> None:
    triton.script = lambda stream: stream.fail(grpc.StatusCode.INTERNAL, "because") or iter(())
    with Client(triton.address) as client:
        cell = latency.measure(client, Server(triton.address, None), Load(Mode.CLOSED, 1, 0.0, None, {}))
    assert (cell.spoken, cell.failed, cell.utterances[0].error) == (0, 1, "INTERNAL: because")
    assert cell.row()["first chunk p50"] == "nan ms"


def test_the_command_prints_a_table_and_keeps_the_samples(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results" / "latency.json"
    arguments = ["--server", triton.address, "--streams", "1", "2", "--seconds", "0.05", "--out", str(out)]
    assert latency.main([*arguments, "--set", "temperature=0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and "first chunk p50" in lines[0] and lines[-1].endswith(str(out))
    kept = json.loads(out.read_text())
    assert [(cell["mode"], cell["streams"]) for cell in kept["results"]] == [
        ("closed", 1), ("closed", 2), ("playing", 1), ("playing", 2)
    ]  # fmt: skip
    first = kept["results"][0]["utterances"][0]
    assert len(first["arrivals_ms"]) == 3 and first["figures"]["chunks"] == 3
    assert kept["settings"]["parameters"] == {"temperature": 0.5}
    assert {"cpu", "cores", "commit", "command", "versions", "weights"} <= set(kept["environment"])


@pytest.mark.needs("matplotlib")
def test_a_report_becomes_a_picture(triton: FakeTriton, tmp_path: Path) -> None:
    from perf import plot

    out = tmp_path / "latency.json"
    assert (
        latency.main(["--server", triton.address, "--streams", "1", "--seconds", "0", "--out", str(out)]) == 0
    )
    assert plot.main([str(out)]) == 0
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_texts_are_plain_sentences() -> None:
    assert len(TEXTS) == len(set(TEXTS)) and all(10 < len(text) < 100 for text in TEXTS)
