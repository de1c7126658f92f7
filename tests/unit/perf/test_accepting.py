"""`talkahead accept`: which folder is what, and what is said of what was found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from public_folders import Public, write_codec, write_llasa, write_llasa_plus, write_neutts, write_orpheus
from safetensors.torch import load_file, save_file
from talkahead.errors import ArtifactMismatch
from talkahead.families.imported_checkpoint import Download
from talkahead.families.importing import read_checkpoint
from talkahead.families.repository_writer import write_repository

from build_engines.import_checkpoint import completed
from perf.acceptance import __main__ as command
from perf.acceptance.downloads import Downloads
from perf.acceptance.greedy import Difference, GreedyFinding, compare

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

WRITERS: dict[str, Callable[[Path], Public]] = {"llasa": write_llasa, "orpheus": write_orpheus}
VOICE = '{"text": "I am Jo.", "codes": [3, 1, 4, 1, 5]}'


def downloads(family: str, folder: Path) -> Downloads:
    if family == "neutts":
        write_neutts(folder / "talker")
        (folder / "talker" / "voices").mkdir()
        (folder / "talker" / "voices" / "jo.json").write_text(VOICE)
    else:
        WRITERS[family](folder / "talker")
    write_codec(family, folder / "codec")
    return Downloads.of([folder / "codec", folder / "talker"])


@pytest.mark.parametrize("family", ["llasa", "orpheus", "neutts"])
def test_the_likeliest_tokens_are_transformers(family: str, tmp_path: Path) -> None:
    found = downloads(family, tmp_path)
    assert found == Downloads(family, tmp_path / "talker", tmp_path / "codec")
    repository = tmp_path / "repository"
    write_repository(read_checkpoint(family, Download(found.talker, found.codec)), repository)
    finding = compare(found, repository, 70, "cpu")
    assert (finding.same, finding.differences, finding.dtype) == (finding.tokens, (), "float32")
    assert finding.tokens == 70 or (finding.ended and finding.tokens > {"neutts": 50}.get(family, 0))
    assert finding.logit_error < 1e-3 < 0.1 < finding.logit_spread
    assert f"{finding.tokens} of {finding.tokens} greedy tokens are transformers'" in finding.sentence
    weights = repository / "talker" / "1" / "model.safetensors"
    state = load_file(weights)
    state["model.layers.1.mlp.up_proj.weight"] = -state["model.layers.1.mlp.up_proj.weight"]
    save_file(state, weights)
    spoilt = compare(found, repository, 70, "cpu")
    assert spoilt.same < spoilt.tokens and spoilt.logit_error > 0.1


def test_differences_are_excused_by_rounding_alone() -> None:
    finding = GreedyFinding("bfloat16", 90, 200, False, 199, 0.05, 2.0, (Difference(7, 0.09),))
    assert finding.is_excused and "199 of 200" in finding.sentence and "within rounding" in finding.sentence
    other = replace(finding, differences=(*finding.differences, Difference(9, 0.11)))
    assert not other.is_excused and "NOT explained by rounding" in other.sentence


def test_weights_that_come_alone_are_known_beside_their_base(tmp_path: Path) -> None:
    write_llasa_plus(tmp_path / "base")
    (tmp_path / "alone").mkdir()
    shutil.move(tmp_path / "base" / "model.safetensors", tmp_path / "alone")
    write_codec("llasa", tmp_path / "codec")
    folders = [tmp_path / name for name in ("base", "codec", "alone")]
    found = Downloads.of(folders)
    assert (found.talker, found.base, found.codec) == (folders[2], folders[0], folders[1])
    with completed(found.talker, found.base) as whole:
        imported = read_checkpoint("llasa", Download(whole, found.codec))
        write_repository(imported, tmp_path / "repository")
    finding = compare(found, tmp_path / "repository", 20, "cpu")
    assert (finding.same, finding.differences) == (finding.tokens, ()) and finding.logit_error < 1e-3


def test_folders_that_are_not_a_talker_and_a_codec_are_refused(tmp_path: Path) -> None:
    write_llasa(tmp_path / "talker")
    write_codec("llasa", tmp_path / "codec")
    for names, said in (
        (["talker"], "1 hold a tokenizer.json and 0 could be a codec's"),
        (["codec", "codec"], "0 hold a tokenizer.json and 2"),
        (["talker", "none"], "none is no folder"),
    ):
        with pytest.raises(ArtifactMismatch, match=said):
            Downloads.of([tmp_path / name for name in names])
    path = tmp_path / "talker" / "tokenizer.json"
    path.write_text(path.read_text().replace("<|SPEECH_GENERATION_END|>", "<|other|>"))
    with pytest.raises(ArtifactMismatch, match="speech of no family; known: llasa, neutts, orpheus"):
        Downloads.of([tmp_path / "talker", tmp_path / "codec"])


def test_wrong_usage_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_neutts(tmp_path / "talker")
    write_codec("neutts", tmp_path / "codec")
    given = [str(tmp_path / name) for name in ("talker", "codec")]
    out = tmp_path / "out"
    assert command.main([*given, "--out", str(out), "--text", "Hi."]) == 2
    assert "--recording and --text go together" in capsys.readouterr().err and not out.exists()
    assert command.main([*given, "--out", str(tmp_path)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert command.main([given[0], "--out", str(out)]) == 1 and not out.exists()
    assert torch.get_num_threads() >= 1


def test_what_fails_is_told_and_the_rest_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no server starts, as a real one does in tests/system."""

    def breaks(*given: object, **options: object) -> None:
        raise MemoryError("no slots")

    monkeypatch.setattr(command, "listen", breaks)
    found = downloads("llasa", tmp_path)
    out = tmp_path / "out"
    given = [str(found.talker), str(found.codec), "--out", str(out), "--tokens", "5"]
    assert command.main(given) == 1
    said = capsys.readouterr().out
    assert "5 of 5 greedy tokens" in said and "FAILED: speaking: MemoryError: no slots" in said
    assert '"accepted": false' in (out / "accept.json").read_text()
