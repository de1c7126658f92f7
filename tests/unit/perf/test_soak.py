"""A load whose answers are known, against a scripted Triton that now and then says something else."""

from __future__ import annotations

import json
import threading
from itertools import count
from pathlib import Path

import pytest
from fake_triton import FakeStream, FakeTriton, speaks

from instruments.server import Server
from perf import memory, soak
from perf.arrivals import Length

MIB = 2**20


def run(triton: FakeTriton, out: Path) -> tuple[int, dict[str, object]]:
    options = ["--server", triton.address, "--rate", "50", "--minutes", "0.004", "--texts", "1"]
    status = soak.main([*options, "--out", str(out)])
    return status, json.loads(out.read_text(encoding="utf-8"))["settings"]


def test_what_was_said_alone_is_said_again(triton: FakeTriton, tmp_path: Path) -> None:
    triton.script = speaks(2)
    status, told = run(triton, tmp_path / "soak.json")
    assert (status, told["same"], told["different"]) == (0, 12, 0)


def test_another_length_is_found(triton: FakeTriton, tmp_path: Path) -> None:
    asked = count()

    def script(stream: FakeStream) -> object:
        return speaks(3 if next(asked) == soak.NUM_SEEDS + 5 else 2)(stream)

    triton.script = script
    status, told = run(triton, tmp_path / "soak.json")
    assert (status, told["same"], told["different"]) == (1, 11, 1)


def test_memory_grows_by_the_slope_of_the_second_half() -> None:
    watch = soak.MemoryWatch(Server("", None))
    watch.at_s = [float(second) for second in range(0, 120, 10)]
    watch.held = [{"talker": 900 * MIB, "vocoder": 50 * MIB}] * 6
    watch.held += [{"talker": 300 * MIB + second * MIB, "vocoder": 50 * MIB} for second in range(0, 60, 10)]
    assert watch.growth() == pytest.approx({"talker": 60.0, "vocoder": 0.0}, abs=1e-6)


def test_a_server_is_looked_at_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "_LOOK_S", 0.001)
    seen: list[dict[str, int]] = []
    looked = threading.Semaphore(0)

    def of(server: Server) -> dict[str, int]:
        seen.append({"talker": len(seen)})
        looked.release()
        return seen[-1]

    monkeypatch.setattr(memory, "of", of)
    with soak.MemoryWatch(Server("", None)) as watch:
        assert all(looked.acquire(timeout=10.0) for _ in range(3))
    assert watch.held == seen and watch.at_s == sorted(watch.at_s)


@pytest.mark.parametrize("name", ["rate", "minutes"])
def test_what_is_no_load_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soak.main([f"--{name}", "0"])
    assert f"--{name}: 0; more than 0 is allowed" in capsys.readouterr().err


def test_texts_are_of_all_lengths() -> None:
    texts = Length.MIXED.texts
    chosen = soak.spread(texts, 16)
    assert len(set(chosen)) == 16 and soak.spread(texts, 10_000) == list(texts)
    counts = [
        sum(one in length.texts for one in chosen) for length in (Length.SHORT, Length.MEDIUM, Length.LONG)
    ]
    assert min(counts) >= 5
