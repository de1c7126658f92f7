"""Commands draw as the talker wants its tokens drawn, or as they are told."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from talkahead.config import SamplingDefaults
from talkahead.generation_config import write_sampling

from instruments.sampling import add_sampling, sampling_of


@pytest.mark.parametrize(
    "words, temperature, top_p",
    [([], 0.4, 0.9), (["--temperature", "0"], 0.0, 0.9), (["--top-p", "1"], 0.4, 1.0)],
)
def test_what_is_not_said_is_the_talkers(
    words: list[str], temperature: float, top_p: float, tmp_path: Path
) -> None:
    write_sampling(SamplingDefaults(temperature=0.4, top_p=0.9, repetition_penalty=1.1), tmp_path)
    parser = argparse.ArgumentParser()
    add_sampling(parser)
    found = sampling_of(parser.parse_args(words), tmp_path)
    assert (found.temperature, found.top_p, found.repetition_penalty) == (temperature, top_p, 1.1)
