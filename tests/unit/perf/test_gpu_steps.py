"""The GPU's measurement, on a CPU and a talker that is small: it says what it needs, and counts right."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from replayed import Replayed
from talkahead.backbone.checkpoint import Checkpoint

from perf.gpu import __main__ as command
from perf.gpu import talkers
from perf.gpu.speaking import RecalledDrafter, speak
from perf.gpu.talkers import WAYS, DeviceTalker, Sizes
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint

CPU = torch.device("cpu")
SMALL = replace(
    PUBLIC_SHAPES["orpheus-3b"],
    **{"vocab_size": 65, "eos_token_id": 64, "hidden_size": 32, "intermediate_size": 64, "head_dim": 16},
    **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("small")
    write_random_checkpoint(SMALL, folder)
    return Checkpoint(folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 1
    assert capsys.readouterr().err == (
        "perf.gpu measures a GPU, and torch finds none here (torch.cuda.is_available() is false).\n"
    )


def talker_of(checkpoint: Checkpoint, **changes: int) -> DeviceTalker:
    sizes = replace(Sizes(cache=20, room=90, rows=3, nodes=4), **changes)
    return DeviceTalker(checkpoint, WAYS[-1], sizes, CPU, torch.float32, Replayed())


def test_drafts_are_as_often_right_as_was_asked_for(checkpoint: Checkpoint) -> None:
    talker = talker_of(checkpoint)
    plain = speak(talker, 3, 60)
    assert plain.tokens.shape == (3, 61)
    for rate, least, most in ((1.0, 3.9, 4.0), (0.5, 1.4, 2.4), (0.0, 1.0, 1.2)):
        drafted = speak(talker, 3, 12, RecalledDrafter(plain.tokens, 3, rate))
        said = drafted.tokens.shape[1]
        assert torch.equal(drafted.tokens, plain.tokens[:, :said])
        assert least <= said / 12 <= most + 1 / 12


def test_a_step_reads_weights_once_and_what_each_slot_holds(checkpoint: Checkpoint) -> None:
    talker = talker_of(checkpoint)
    cached = 2 * 2 * 2 * 16 * 20 * 4  # layers, keys and values, heads, width, positions, bytes
    assert talker.bytes_read(3) - talker.bytes_read(1) == 2 * cached
    assert talker.bytes_read(1) - cached == talker.decoder.memory.weights


def test_everything_is_measured_and_told(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talkers, "CudaGraphs", lambda device: Replayed())
    options = Namespace(cache=8, rows=[1, 2], nodes=[1, 3], steps=6, right=0.5, repeats=2)
    timed = list(command.measure(checkpoint, CPU, 1e9, options))
    parts = {(one.part, one.way, one.rows, one.nodes) for one in timed}
    cells = [(rows, nodes) for rows in (1, 2) for nodes in (1, 3)]
    assert {one for one in parts if one[0] == "forward"} == {
        ("forward", way.name, *cell) for way in WAYS for cell in cells
    }
    assert {one for one in parts if one[0] == "step"} == {
        *(("step", "plain", rows, 1) for rows in (1, 2)),
        *(("step", "drafts 50% right", rows, 3) for rows in (1, 2)),
    }
    rows = list(command.summary(timed))
    assert all(row["ms"] for row in rows) and {row["tokens/s"] != "" for row in rows} == {True, False}


@pytest.mark.slow
@pytest.mark.needs("gpu")
def test_on_a_gpu_it_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLIC_SHAPES, "llasa-1b", SMALL)
    sizes = ["--cache", "32", "--rows", "1", "2", "--nodes", "1", "2", "--steps", "6", "--repeats", "2"]
    out = tmp_path / "gpu.json"
    assert command.main([*sizes, "--folder", str(tmp_path), "--out", str(out)]) == 0
    assert torch.cuda.get_device_name(0) in out.read_text()
