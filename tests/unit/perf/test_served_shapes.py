"""A random download of a public shape becomes a repository with a draft, and once only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from public_folders import SMALL_SNAC
from talkahead.drafting.draft_artifact import Draft
from talkahead.drafting.draft_files import draft_folder

from instruments.public_codecs import write_snac
from instruments.public_tokenizers import orpheus_tokenizer
from perf import served_shapes
from perf.shapes import random_download
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_download import KINDS

SHAPE = "orpheus-3b"
CODES = 4_096

# SNAC scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def test_a_repository_is_made_of_a_random_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(
        PUBLIC_SHAPES[SHAPE],
        **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 2},
        num_key_value_heads=1,
        head_dim=32,
    )
    monkeypatch.setitem(random_download.PUBLIC_SHAPES, SHAPE, small)
    codec = {**SMALL_SNAC, "codebook_size": CODES}
    kind = replace(
        KINDS[SHAPE],
        tokenizer=lambda: orpheus_tokenizer(CODES),
        write_codec=lambda folder: write_snac(folder, codec),
    )
    monkeypatch.setitem(KINDS, SHAPE, kind)
    build = served_shapes._build
    monkeypatch.setattr(
        served_shapes, "_build", lambda *command: command[0] == "export" or build(*command)
    )  # SNAC's own size takes half a minute
    repository = served_shapes.imported(SHAPE, tmp_path)
    talker = repository / "talker" / "1"
    assert Draft.load(draft_folder(talker, "mtp"), talker).drafter == "mtp"
    assert (repository / "vocoder" / "1" / "manifest.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["repository"]
    written = talker.stat().st_mtime_ns
    assert served_shapes.imported(SHAPE, tmp_path) == repository
    assert talker.stat().st_mtime_ns == written


def test_an_unfinished_repository_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*command: str) -> None:
        raise KeyboardInterrupt

    (tmp_path / "unfinished").mkdir()
    monkeypatch.setattr(served_shapes, "write_download", lambda shape, talker, codec: None)
    monkeypatch.setattr(served_shapes, "_build", fail)
    with pytest.raises(KeyboardInterrupt):
        served_shapes.imported(SHAPE, tmp_path)
    assert not (tmp_path / "repository").exists() and not (tmp_path / "unfinished").exists()
