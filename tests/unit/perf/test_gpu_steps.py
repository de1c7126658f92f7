"""The GPU's measurement, on a CPU and a talker that is small: it says what it needs, and counts right."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from replayed import Replayed
from talkahead.backbone.checkpoint import Checkpoint
from talkahead.config import parameters_of
from talkahead.speculation import host_reads
from talkahead.types import StepWay

from instruments.server import Server
from perf.cell import Cell
from perf.gpu import __main__ as command
from perf.gpu import serving, talkers
from perf.gpu.attention import FLEX, TORCH, attentions
from perf.gpu.serving import Served
from perf.gpu.speaking import RecalledDrafter, speak
from perf.gpu.talkers import SERVED, WAYS, DeviceTalker, Sizes, Way
from perf.part import Part
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint
from perf.streams import Load
from perf.turns import Configuration
from perf.utterance import Utterance

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
    return DeviceTalker(checkpoint, SERVED, sizes, CPU, torch.float32, Replayed())


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


OPTIONS = Namespace(shape="orpheus-3b", cache=8, rows=[1, 2], nodes=[1, 3], steps=6, right=0.5, repeats=2)
UNFUSED = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
HOW = ("launched", "forward a graph", "one graph")


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled, and graphs have a stand-in."""
    monkeypatch.setattr(talkers, "CudaGraphs", lambda device: Replayed())
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


@UNFUSED
def test_everything_is_measured_and_told(checkpoint: Checkpoint, replayed: None) -> None:
    timed = list(command.measure(checkpoint, CPU, 1e9, OPTIONS))
    parts = {(one.part, one.way, one.rows, one.nodes) for one in timed}
    cells = [(rows, nodes) for rows in (1, 2) for nodes in (1, 3)]
    assert {one for one in parts if one[0] == "forward"} == {
        ("forward", way.name, *cell) for way in WAYS for cell in cells
    }
    assert {one for one in parts if one[0] == "step"} == {
        *(("step", f"plain, {how}", rows, 1) for rows in (1, 2) for how in HOW),
        *(("step", f"drafts 50% right, {how}", rows, 3) for rows in (1, 2) for how in HOW),
    }
    assert {one for one in parts if one[0] == "attention"} == {
        ("attention", way, *cell) for way in (TORCH, FLEX) for cell in cells
    }
    rows = list(command.summary(timed))
    assert all(row["ms"] for row in rows) and {row["tokens/s"] != "" for row in rows} == {True, False}


def test_our_voice_is_drafted_for_by_its_own_heads(replayed: None) -> None:
    options = Namespace(**{**vars(OPTIONS), "shape": command.OUR_VOICE, "cache": 60, "nodes": [1, 4]})
    sizes = Sizes(60, 30, 2, 4)
    talker = DeviceTalker(Checkpoint(command.TALKER), SERVED, sizes, CPU, torch.float32, Replayed())
    found = {(one.way, one.rows, one.nodes) for one in command._steps(talker, StepWay.STEP, options)}
    assert found == {
        (f"{told}, one graph", rows, nodes)
        for told, nodes in (("plain", 1), ("its own heads", 4))
        for rows in (1, 2)
    }


def test_steps_say_the_same_however_they_are_asked_for(checkpoint: Checkpoint) -> None:
    talker = talker_of(checkpoint)
    launched, replayed = (speak(talker, 3, 20, is_recorded=recorded).tokens for recorded in (False, True))
    assert torch.equal(launched, replayed)


def test_what_the_device_refuses_is_left_out_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise RuntimeError("no such thing\nfurther lines")

    assert command._samples("FlexAttention", refuse, CPU, 2) == []
    assert capsys.readouterr().err == "FlexAttention: left out: RuntimeError: no such thing\n"


@UNFUSED
@pytest.mark.parametrize("nodes", [1, 3])
def test_attention_is_the_same_by_flex_attention(nodes: int) -> None:
    ways = dict(attentions(SMALL, 2, nodes, 8, 16, CPU))
    torch.testing.assert_close(ways[FLEX](), ways[TORCH](), atol=0.02, rtol=0.02)


@pytest.mark.slow
def test_a_compiled_forward_is_the_forward(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one piece, as on a device: what the compiler was given is computed as it is."""
    monkeypatch.setattr(host_reads, "are_free", lambda tensor: False)
    compiling = torch.compile
    monkeypatch.setattr(torch, "compile", lambda one, **_: compiling(one, backend="eager", fullgraph=True))
    logits = []
    for is_compiled in (False, True):
        way = Way("", has_graphs=False, has_kernel=False, is_compiled=is_compiled)
        talker = DeviceTalker(checkpoint, way, Sizes(20, 10, 3, 4), CPU, torch.float32)
        torch.manual_seed(1)
        talker.fill()
        logits.append(talker.step(3, 4)().logits)  # type: ignore[attr-defined]
    torch.testing.assert_close(*logits)


def test_the_server_has_as_many_slots_as_streams_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, list[str]]] = []

    @contextmanager
    def server_at(grpc: None, metrics: None, options: tuple[str, ...], repository: Path) -> Iterator[Server]:
        assert parameters_of(repository / "talker")["slots"] == "32"
        yield Server("", None)

    def by_turns(configurations: list[Configuration], load: Load, slices: int) -> list[Cell]:
        asked.append((load.streams, [one.name for one in configurations]))
        failed = Utterance(0, 0, 1.0, None, None, "UNAVAILABLE: because", (), ())
        return [Cell.of(one.name, load, [Part(1.0, [failed])], []) for one in configurations]

    monkeypatch.setattr(serving, "server_at", server_at)
    monkeypatch.setattr(serving, "by_turns", by_turns)
    monkeypatch.setattr(Cell, "over", lambda own, other: own)
    assert list(Served.our_voice().measure([1, 32], 4.0, 2, tmp_path)) == []  # nothing was heard
    assert asked == [(count, ["the server's default", "drafter=none"]) for count in (1, 32)]


@pytest.mark.slow
@pytest.mark.needs("gpu")
def test_on_a_gpu_it_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLIC_SHAPES, "llasa-1b", SMALL)
    sizes = ["--cache", "32", "--rows", "1", "2", "--nodes", "1", "2", "--steps", "6", "--repeats", "2"]
    out = tmp_path / "gpu.json"
    assert command.main([*sizes, "--streams", "--folder", str(tmp_path), "--out", str(out)]) == 0
    assert torch.cuda.get_device_name(0) in out.read_text()
