"""The cost of public talkers' steps, on one that is small."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from talkahead.backbone.checkpoint import INDEX, Checkpoint, tensor_shapes
from talkahead.backbone.decoder_choice import Precision

from perf.shapes import __main__ as command
from perf.shapes.forward import OurForward, parameters_read
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint

SMALL = replace(
    PUBLIC_SHAPES["llasa-1b"],
    **{"vocab_size": 65, "eos_token_id": 64, "hidden_size": 32, "intermediate_size": 64, "head_dim": 16},
    **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
)


@pytest.mark.parametrize(
    ("name", "billions"), [("llasa-1b", 1.11), ("neutts-air", 0.42), ("orpheus-3b", 2.99)]
)
def test_shapes_are_as_large_as_their_names_say(name: str, billions: float) -> None:
    config = PUBLIC_SHAPES[name]
    sizes = [shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in tensor_shapes(config).values()]
    assert sum(sizes) / 1e9 == pytest.approx(billions, abs=0.01)


def test_a_forward_reads_all_weights_but_embeddings_that_are_no_head(tmp_path: Path) -> None:
    for tied in (True, False):
        config = replace(SMALL, tie_word_embeddings=tied)
        write_random_checkpoint(config, tmp_path / str(tied))
    tied, own = (parameters_read(Checkpoint(tmp_path / str(one))) for one in (True, False))
    assert tied == own


def test_a_call_leaves_the_slots_as_they_were(tmp_path: Path) -> None:
    write_random_checkpoint(SMALL, tmp_path)
    forward = OurForward(tmp_path, Precision.FLOAT32, cache=8, rows=2, nodes=3)
    step = forward.step(2, 3)
    first = step().logits
    forward.prefill()()
    assert first.equal(step().logits)


def test_what_is_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLIC_SHAPES, "llasa-1b", SMALL)
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    out = tmp_path / "shapes.json"
    asked = ["--cache", "8", "--repeats", "2", "--rows", "1", "2", "--nodes", "1", "3"]
    for _ in range(2):
        assert (
            command.main([*asked, "--folder", str(tmp_path), "--precisions", "float32", "--out", str(out)])
            == 0
        )
    assert (tmp_path / "llasa-1b" / INDEX).exists()
    results = json.loads(out.read_text())["results"]
    parts = {(one["part"], one["rows"], one["nodes"]) for one in results}
    assert parts == {("prefill", 1, 0), *(("step", rows, nodes) for rows in (1, 2) for nodes in (1, 3))}
    assert all(len(one["samples_ms"]) == 2 and one["bytes_ms"] > 0 for one in results)
