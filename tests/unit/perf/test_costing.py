"""The cost of steps, of the talker's shape where none is named."""

from __future__ import annotations

import json
from pathlib import Path

from talkahead.backbone.decoder_config import DecoderConfig

from instruments.environment import REPOSITORY
from instruments.talker_shape import Shape
from perf import costing

SHIPPED = DecoderConfig.from_file(REPOSITORY / "talker" / "1" / "config.json")


def test_a_shape_is_a_config_in_one_word() -> None:
    shape = Shape.of(SHIPPED)
    assert Shape.parse(str(shape)) == shape
    named = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_key_value_heads")
    assert [getattr(shape.config, name) for name in named] == [getattr(SHIPPED, name) for name in named]


def test_unless_told_otherwise_it_is_the_shipped_shape_that_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "costing.json"
    assert costing.main(["--cache", "8", "--repeats", "1", "--precision", "float32", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert {one["shape"] for one in report["results"]} == {str(Shape.of(SHIPPED))}
    assert report["environment"]["weights"] == {}
