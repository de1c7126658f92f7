from __future__ import annotations

import json
from pathlib import Path

import pytest
from talkahead.config import SamplingDefaults
from talkahead.errors import ArtifactMismatch
from talkahead.generation_config import (
    NAME,
    AlignmentHead,
    AlignmentWindow,
    read_alignment_head,
    read_sampling,
    write_sampling,
)
from transformers import GenerationConfig

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository" / "talker" / "1"


def reading(folder: Path, **described: object) -> SamplingDefaults:
    (folder / NAME).write_text(json.dumps(described))
    return read_sampling(folder)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for defaults in (SamplingDefaults(0.8, 0.9, 50, 1.2, 10, 3), SamplingDefaults(temperature=0.0)):
        write_sampling(defaults, tmp_path)
        assert read_sampling(tmp_path) == defaults


def test_the_shipped_talker_says_how_it_is_drawn_from() -> None:
    assert read_sampling(SHIPPED) == SamplingDefaults(0.5, 0.95, 0, 1.0, 0, 1)


def test_a_talker_says_which_head_tells_its_words(tmp_path: Path) -> None:
    assert read_alignment_head(SHIPPED) == AlignmentHead(
        2, 0, AlignmentWindow(back=0, ahead=1, longest=25, closing=2)
    )
    write_sampling(SamplingDefaults(), tmp_path)
    assert read_alignment_head(tmp_path) is None
    write_sampling(SamplingDefaults(), tmp_path, AlignmentHead(3, 1))
    assert read_alignment_head(tmp_path) == AlignmentHead(3, 1)
    assert read_sampling(tmp_path) == SamplingDefaults()
    head = AlignmentHead(3, 1, AlignmentWindow(back=2, ahead=1, longest=9, closing=3))
    write_sampling(SamplingDefaults(), tmp_path, head)
    assert read_alignment_head(tmp_path) == head


@pytest.mark.parametrize("heads", [[[1, 2], [3, 4]], [1, 2], [[1]], [[1, 2.5]], "12"])
def test_heads_that_are_not_one_are_refused(tmp_path: Path, heads: object) -> None:
    (tmp_path / NAME).write_text(json.dumps({"alignment_heads": heads}))
    with pytest.raises(ArtifactMismatch, match=r"alignment_heads is .*; allowed: \[\[layer, head\]\]"):
        read_alignment_head(tmp_path)


@pytest.mark.parametrize(
    "window",
    [
        *([0, 1], 3, "back", {"back": 0}, {"back": 0, "ahead": 1, "beside": 1}),
        *({"back": 0, "ahead": 0}, {"back": -1, "ahead": 2}, {"back": 0, "ahead": 1.5}),
        {"back": 0, "ahead": 1, "closing": -1},
    ],
)
def test_windows_that_are_none_are_refused(tmp_path: Path, window: object) -> None:
    (tmp_path / NAME).write_text(json.dumps({"alignment_heads": [[1, 2]], "alignment_window": window}))
    with pytest.raises(ArtifactMismatch, match=r"alignment_window is .*; allowed: .*\"ahead\": 1 or more"):
        read_alignment_head(tmp_path)


def test_what_transformers_writes_is_read_as_transformers_does(tmp_path: Path) -> None:
    """What it leaves out is not off: its `top_k` is 50."""
    public = GenerationConfig(
        do_sample=True, temperature=0.6, repetition_penalty=1.1, eos_token_id=[5, 6], max_length=2048
    )
    public.save_pretrained(tmp_path)
    assert read_sampling(tmp_path) == SamplingDefaults(0.6, 1.0, 50, 1.1)
    assert GenerationConfig._get_default_generation_params()["top_k"] == 50
    assert reading(tmp_path).temperature == 0.0
    assert reading(tmp_path, do_sample=False, temperature=0.6) == SamplingDefaults(0.0, 1.0, 50)


@pytest.mark.parametrize(
    ("described", "told"),
    [
        (
            {"min_p": 0.1, "num_beams": 4},
            "min_p, num_beams cannot be honoured; known: do_sample, temperature",
        ),
        ({"temperature": 7}, "temperature is 7; allowed: a number from 0 to 2"),
        ({"top_k": "many"}, "top_k is 'many'; allowed: a whole number"),
        ({"repetition_penalty": [1.1]}, r"repetition_penalty is \[1.1\]; allowed: a number from 1 to 2"),
        ({"do_sample": "yes"}, "do_sample is 'yes'; allowed: true or false"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, described: dict[str, object], told: str) -> None:
    with pytest.raises(ArtifactMismatch, match=f"{NAME}.*{told}"):
        reading(tmp_path, **described)


@pytest.mark.parametrize("text", [None, "{", "[]"], ids=["missing", "broken", "a list"])
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / NAME).write_text(text)
    with pytest.raises(ArtifactMismatch, match=NAME):
        read_sampling(tmp_path)
