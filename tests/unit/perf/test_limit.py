"""What counted operations allow: the count is that of the shapes, and the limit is its sum."""

from __future__ import annotations

from pathlib import Path

import pytest
from talkahead.backbone.decoder_config import DecoderConfig

from instruments.environment import REPOSITORY
from perf import limit
from perf.limit import Counted


def test_the_limit_is_what_all_cores_multiply_by_what_a_second_takes() -> None:
    counted = Counted(
        talker=0.6,
        attention=0.1,
        codec=0.2,
        prompt=0.4,
        best=100.0,
        step_of_many=50.0,
        step_of_one=9.0,
        cores=2,
    )
    assert counted.most(audio_s=4.0) == pytest.approx(2 * 100.0 / 1.0)
    told = {row[""]: row["figure"] for row in counted.rows(4.0, spoken=50.0)}
    assert (
        told["requests a second at most"] == "50"
        and told["the server speaks"] == "50 s a second, 25% of that"
    )
    assert "the server speaks" not in {row[""] for row in counted.rows(4.0, spoken=None)}


def test_multiplications_are_those_of_the_shapes() -> None:
    counted, config = (
        limit.count(repeats=1),
        DecoderConfig.from_file(REPOSITORY / "talker" / "1" / "config.json"),
    )
    width, heads, shared = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
    attention = width * config.head_dim * (2 * heads + 2 * shared)
    layer = attention + 3 * width * config.intermediate_size
    assert counted.talker == pytest.approx(
        40 * (config.num_hidden_layers * layer + config.vocab_size * width) / 1e9
    )
    assert 0 < counted.codec < counted.talker and counted.prompt > 0
    assert 0 < counted.step_of_one < counted.best


def test_without_a_load_there_is_no_length_of_requests(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no load\.json"):
        limit.main(["--results", str(tmp_path), "--repeats", "1"])
