"""The load generator against a scripted Triton, and what is made of its samples."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fake_triton import RATE_HZ, FakeStream, FakeTriton, chunk
from talkahead_client import AudioChunk, Client

from perf import latency
from perf.streams import Load, Mode
from perf.texts import TEXTS


class _Pausing:
    """A client that hears a first chunk of 20 ms and the rest 60 ms later at the earliest, however late that
    came: it runs dry."""

    def __init__(self, client: Client, triton: FakeTriton) -> None:
        self._client = client
        self._is_heard: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        triton.script = self._script

    def speak(self, text: str, **parameters: Any) -> Iterator[AudioChunk]:  # noqa: ANN401
        for heard in self._client.speak(text, **parameters):
            yield heard
            if not heard.is_last:
                time.sleep(0.06)
                self._is_heard[text].set()

    def _script(self, stream: FakeStream) -> Iterator[object]:
        yield chunk(0, samples=RATE_HZ // 50)
        self._is_heard[stream.text].wait(10)
        yield chunk(1, samples=RATE_HZ * 8 // 100, is_last=True, is_final=True)


def test_closed_loop_keeps_the_server_busy(triton: FakeTriton) -> None:
    with Client(triton.address) as client:
        utterances = Load(Mode.CLOSED, 2, 0.3, None, {"seed": 3}).run(_Pausing(client, triton))
    assert {utterance.stream for utterance in utterances} == {0, 1}
    assert len(utterances) <= 12  # none begins before the one before it has ended
    assert {stream.text for stream in triton.streams} <= set(TEXTS)
    assert all(stream.request.parameters["seed"].int64_param == 3 for stream in triton.streams)
    (gap,) = utterances[0].gaps_ms
    assert gap >= 60
    assert utterances[0].figures is not None and utterances[0].figures.dry_chunks == 1


def test_playing_streams_wait_until_the_last_has_been_played(triton: FakeTriton) -> None:
    with Client(triton.address) as client:
        utterances = Load(Mode.PLAYING, 1, 0.5, None, {}).run(_Pausing(client, triton))
    starts = [utterance.started_s for utterance in utterances]
    # 60 ms until the second chunk, 80 ms to play it
    assert all(later - earlier >= 0.13 for earlier, later in pairwise(starts))


def test_whoever_runs_the_same_part_says_the_same(triton: FakeTriton) -> None:
    def said(part: int) -> list[tuple[str, int]]:
        triton.streams.clear()
        with Client(triton.address) as client:
            Load(Mode.CLOSED, 2, 0.0, None, {}, part).run(client)
        return sorted((one.text, one.request.parameters["seed"].int64_param) for one in triton.streams)

    assert said(0) == said(0)
    texts, seeds = zip(*said(0), strict=True)
    others, other_seeds = zip(*said(1), strict=True)
    assert set(texts).isdisjoint(others) and len({*seeds, *other_seeds}) == 4


def test_the_command_prints_tables_and_keeps_the_samples(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.script = lambda stream: iter((chunk(0, is_last=True, is_final=True, drafts=(8, 5, 900, 1, 0)),))
    out = tmp_path / "results" / "latency.json"
    arguments = ["--server", triton.address, "--streams", "1", "2", "--out", str(out)]
    arguments += ["--seconds", "0.1", "--slices", "2", "--set", "temperature=0.5"]
    assert latency.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "first chunk p50" in lines[0] and lines[-1].endswith(str(out))
    assert " cores, the talker's speed with `heads+match` over" in lines[-2]
    assert "that with temperature=0.5 drafter=none: closed streams, 1:" in lines[-2]
    kept = json.loads(out.read_text())
    assert [(cell["configuration"], cell["mode"], cell["streams"]) for cell in kept["results"]] == [
        (configuration, mode, streams)
        for mode in ("closed", "playing")
        for streams in (1, 2)
        for configuration in ("temperature=0.5", "temperature=0.5 drafter=none")
    ]
    first, second = kept["results"][:2]
    assert first["gain"]["over"] == second["configuration"] and second["gain"] is None
    assert first["pairs"] == {"heads+match": first["spoken"]}
    at_once = {(cell["mode"], cell["streams"]): cell["burst_ms"]["count"] for cell in kept["results"][::2]}
    assert at_once == {("closed", 1): 0, ("closed", 2): 4, ("playing", 1): 0, ("playing", 2): 0}
    assert all(
        cell["first_chunk_ms"]["count"] + cell["burst_ms"]["count"] == cell["spoken"]
        for cell in kept["results"]
    )
    utterance = first["parts"][0]["utterances"][0]
    assert len(utterance["arrivals_ms"]) == 1 and utterance["figures"]["chunks"] == 1
    assert utterance["stats"]["decode_us"] == 900
    assert {"cpu", "cores", "commit", "command", "versions", "weights"} <= set(kept["environment"])


def test_of_a_server_elsewhere_the_weights_are_those_of_the_repository_that_is_named(
    triton: FakeTriton, tmp_path: Path
) -> None:
    triton.script = lambda stream: iter((chunk(0, is_last=True, is_final=True, drafts=(8, 5, 900, 1, 0)),))
    talker = tmp_path / "models" / "talker" / "1"
    for folder in (talker, talker / "drafts" / "heads", talker / "drafts" / "mtp", talker / "groups"):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(str(folder.name).encode())
    out = tmp_path / "latency.json"
    arguments = [
        "--server",
        triton.address,
        "--streams",
        "1",
        "--modes",
        "closed",
        "--seconds",
        "0",
        "--alone",
    ]

    def weights(*more: str) -> dict[str, str]:
        assert latency.main([*arguments, "--out", str(out), *more]) == 0
        hashes: dict[str, str] = json.loads(out.read_text())["environment"]["weights"]
        return hashes

    assert weights() == {}
    found = weights("--repository", str(tmp_path / "models"))
    assert set(found) == {"talker/1/model.safetensors", "talker/1/drafts/heads/model.safetensors"}
    assert found["talker/1/model.safetensors"] == hashlib.sha256(b"1").hexdigest()[:16]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--set", "drafter=none"], "beside itself"),
        (["--also", "drafter=none"], "beside itself"),
        (["--slices", "1"], "2 or more"),
        (["--alone", "--beside", "drafter=mtp"], "not allowed with"),
        (["--set", "drifter=none"], "'drifter' is no parameter"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        latency.main(["--server", "127.0.0.1:1", *arguments])
    assert complaint in capsys.readouterr().err


@pytest.mark.needs("matplotlib")
def test_a_report_becomes_a_page_pictures_and_the_readme_s_table(triton: FakeTriton, tmp_path: Path) -> None:
    from perf.report import __main__ as page

    out, readme = tmp_path / "results" / "latency.json", tmp_path / "README.md"
    arguments = ["--server", triton.address, "--streams", "1", "2", "--seconds", "0", "--slices", "2"]
    assert latency.main([*arguments, "--out", str(out)]) == 0
    readme.write_text("Before.\n<!-- by streams -->\nold\n<!-- /by streams -->\nBehind.\n")
    asked = ["--results", str(out.parent), "--page", str(tmp_path / "page.md"), "--readme", str(readme)]
    assert page.main(asked) == 0
    assert all(
        out.with_name(name).read_bytes().startswith(b"\x89PNG") for name in ("latency.png", "peers.png")
    )
    written = readme.read_text()
    assert "| playing streams | 1 | 2 |" in written and "old" not in written
    assert "| first chunk, all at the same moment, p50 / p95 | - | - |" in written
    assert written.startswith("Before.") and written.endswith("Behind.\n")
    told = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "(results/peers.png)" in told and "| first chunk, as the client sees it |" in told
    before = "With the weights that were shipped before"
    assert before not in told
    (out.parent / "earlier").mkdir()
    out.rename(out.parent / "earlier" / out.name)
    assert page.main(asked) == 0
    again = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert again.count(before) == 3 and "(results/peers.png)" in again


def test_texts_are_plain_sentences() -> None:
    assert len(TEXTS) == len(set(TEXTS)) and all(10 < len(text) < 100 for text in TEXTS)


def test_ways_that_are_measured_too_are_each_compared_with_what_goes_beside(
    triton: FakeTriton, tmp_path: Path
) -> None:
    triton.script = lambda stream: iter((chunk(0, is_last=True, is_final=True),))
    out = tmp_path / "methods.json"
    asked = [
        "--set",
        "drafter=heads",
        "--also",
        "drafter=mtp,verifier=topk",
        "--seconds",
        "0",
        "--slices",
        "2",
    ]
    where = ["--server", triton.address, "--streams", "1", "--seconds", "0", "--modes", "closed"]
    assert latency.main([*where, *asked, "--out", str(out)]) == 0
    results = json.loads(out.read_text())["results"]
    over = {one["configuration"]: one["gain"] and one["gain"]["over"] for one in results}
    assert over == {
        "drafter=heads": "drafter=none",
        "drafter=mtp verifier=topk": "drafter=none",
        "drafter=none": None,
    }
