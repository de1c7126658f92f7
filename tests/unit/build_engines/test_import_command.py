"""`import-checkpoint` as it is typed: what it says of a checkpoint, and of what it cannot import."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from public_folders import medusa_heads, write_codec, write_llasa, write_llasa_plus, write_neutts
from safetensors.torch import load_file, save_file
from talkahead.drafting.offer import read_offer
from talkahead.launcher import doctor
from talkahead.speech_format import SpeechFormat

from build_engines import import_checkpoint
from build_engines.__main__ import main
from perf.talker.gguf_file import write_gguf

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

Break = Callable[[Path, Path], object]
"""Spoils a talker's folder, or a codec's."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A talker and its codec, of which each test gets a copy."""
    folder = tmp_path_factory.mktemp("pristine")
    public = write_llasa(folder / "talker")
    torch.save(medusa_heads(public, blocks=1), folder / "talker" / "medusa_lm_head.pt")
    write_codec("llasa", folder / "codec")
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine, tmp_path / "downloads")


def run(folder: Path, *options: str, family: str = "llasa") -> int:
    """Its exit status; beside the downloads lies nothing, or a whole repository."""
    out = folder.parent / "repository"
    given = [str(folder / "talker"), "--codec", str(folder / "codec"), "--out", str(out)]
    status = main(["import-checkpoint", family, *given, *options])
    left = [path.name for path in folder.parent.iterdir()]
    assert sorted(left) == ["downloads", "repository"] if status == 0 else ["downloads"]
    return status


def packed(folder: Path, name: str) -> Path:
    """A talker's weights for llama.cpp, in the place of its own."""
    path = folder / "talker" / name
    write_gguf(folder / "talker", "float32", path)
    return path


def test_weights_for_llama_cpp_are_those_that_they_were_made_of(folder: Path, tmp_path: Path) -> None:
    """A folder that holds them, and the file alone beside its base."""
    assert run(folder) == 0
    written = load_file(tmp_path / "repository/talker/1/model.safetensors")
    shutil.rmtree(tmp_path / "repository")
    path = packed(folder, "talker-f32.gguf")
    (folder / "talker" / "model.safetensors").unlink()
    base = shutil.copytree(folder / "talker", folder / "base", ignore=shutil.ignore_patterns("*.gguf"))
    for given, options in ((folder / "talker", []), (path, ["--base", str(base)])):
        out = tmp_path / "repository"
        command = ["import-checkpoint", "llasa", str(given), "--codec", str(folder / "codec")]
        assert main([*command, "--out", str(out), *options]) == 0
        read = load_file(out / "talker/1/model.safetensors")
        assert read.keys() == written.keys()
        assert all(torch.equal(read[name], written[name].bfloat16()) for name in read)
        shutil.rmtree(out)


def test_of_several_files_for_llama_cpp_one_is_to_be_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(folder, "a.gguf"), packed(folder, "b.gguf")
    (folder / "talker" / "model.safetensors").unlink()
    assert run(folder) == 1
    assert "several files of weights: a.gguf, b.gguf; allowed: the path of one" in capsys.readouterr().err


def test_it_prints_what_one_has_to_know(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "talker" / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    assert run(folder) == 0
    said = capsys.readouterr()
    repository = folder.parent / "repository"
    for line in (
        "licence   talker: cc-by-nc-4.0; codec: CC-BY-NC-4.0 (as published; the folder does not state it)",
        "drafts    heads",
        "memory    weights ",
        "speech    16,000 Hz, 50 frames a second of 32 codes",
        "segments  1,433 positions, and 615 for a reference",
        f"serve     talkahead serve --repository {repository}",
    ):
        assert line in said.out
    assert "warning" not in said.err
    assert read_offer(repository / "talker" / "1").drafters["heads"].nodes == (2, 4, 8, 16, 32)
    config = (repository / "talker" / "config.pbtxt").read_text()
    assert '{ key: "precision" value { string_value: "bfloat16" } }' in config and 'int8" }' not in config


def test_weights_that_come_alone_take_the_rest_of_their_base(
    pristine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Llasa+'s are published: one file. Its base has weights of its own, which are not these."""
    folder = tmp_path / "downloads"
    state = write_llasa_plus(tmp_path / "whole")
    shutil.copytree(pristine / "codec", folder / "codec")
    (folder / "talker").mkdir()
    shutil.move(tmp_path / "whole" / "model.safetensors", folder / "talker")
    base = shutil.move(tmp_path / "whole", folder / "base")
    save_file({"llm.lm_head.weight": state["llm.lm_head.weight"]}, base / "model.safetensors")
    assert run(folder) == 1
    assert "--base FOLDER (Llasa+'s weights come alone" in capsys.readouterr().err
    assert run(folder, "--base", str(base)) == 0
    assert "drafts    mtp" in capsys.readouterr().out
    talker = load_file(tmp_path / "repository" / "talker" / "1" / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    torch.testing.assert_close(talker[name], state[f"llm.{name}"].bfloat16(), rtol=0, atol=0)
    manifest = (tmp_path / "repository" / "talker" / "1" / "manifest.json").read_text()
    assert "the folders talker and codec" in manifest


def test_weights_are_kept_in_bfloat16_unless_products_are_wider(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Matrices, of the talker and of the table that prompts are made of; norms stay as they are."""
    published = load_file(folder / "talker" / "model.safetensors")
    repository = folder.parent / "repository"
    tables = {}
    for precision in ("bfloat16", "int8", "float32"):
        assert run(folder, "--precision", precision) == 0
        talker, encoder = (
            load_file(repository / path)
            for path in ("talker/1/model.safetensors", "encoder/1/encoder.safetensors")
        )
        keeps = precision == "float32"
        for name, weight in talker.items():
            assert weight.dtype is (torch.bfloat16 if weight.dim() > 1 and not keeps else torch.float32)
            if weight.shape == published[name].shape:
                assert torch.equal(weight, published[name].to(weight.dtype))
        (table,) = encoder.values()
        tables[precision] = table
        assert (
            f'"precision" value {{ string_value: "{precision}"'
            in (repository / "talker" / "config.pbtxt").read_text()
        )
        shutil.rmtree(repository)
    assert torch.equal(tables["float32"].bfloat16(), tables["bfloat16"])


def test_too_little_memory_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_checkpoint, "machine_memory", lambda: 100_000)
    assert run(folder) == 0
    assert "and this machine has 0.0 GiB; serve it where there is more" in capsys.readouterr().err


def drop_encoder(codec: Path) -> None:
    path = codec / "model.safetensors"
    state = load_file(path)
    save_file({name: value for name, value in state.items() if "encoder" not in name}, path)


def test_a_codec_that_only_speaks_needs_the_codes_of_silence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drop_encoder(folder / "codec")
    assert run(folder) == 1
    codec = folder / "codec"
    assert f"{codec}: its weights hold no encoder to find the codes of silence with; allowed: --silence" in (
        capsys.readouterr().err
    )
    for codes in ("32", "3,4"):
        assert run(folder, "--silence", codes) == 1
        assert "silence is [3" in capsys.readouterr().err
    assert run(folder, "--silence", "7") == 0
    assert "no references, for the codec's weights hold no encoder" in capsys.readouterr().out
    speech = SpeechFormat.read(folder.parent / "repository" / "vocoder" / "1")
    assert (speech.silence, speech.reference_positions) == ((7,), 0)


def test_without_voices_and_without_ears_nothing_could_be_spoken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "downloads"
    write_neutts(folder / "talker")
    write_codec("neutts", folder / "codec")
    drop_encoder(folder / "codec")
    assert run(folder, "--silence", "7", family="neutts") == 1
    assert f"{folder / 'talker'} holds no voice; allowed: voices/NAME.json there" in capsys.readouterr().err


def change_config(part: str, **fields: object) -> Break:
    def change(*folders: Path) -> None:
        path = dict(zip(("talker", "codec"), folders, strict=True))[part] / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def drop_shard(talker: Path, _: Path) -> None:
    """Two shards in an index, and one of them."""
    state = load_file(talker / "model.safetensors")
    shards = {name: f"model-0000{1 + (name > 'model.layers.1')}-of-00002.safetensors" for name in state}
    (talker / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    first = "model-00001-of-00002.safetensors"
    save_file({name: value for name, value in state.items() if shards[name] == first}, talker / first)
    (talker / "model.safetensors").unlink()


def cut_tensor(path: Path, name: str) -> None:
    state = load_file(path)
    state[name] = state[name][1:].clone()
    save_file(state, path)


@pytest.mark.parametrize(
    ("spoil", "options", "family", "sentences"),
    [
        (None, (), "orpheus", ["talker/tokenizer.json is of llasa, not of orpheus", "<custom_token_10>"]),
        (lambda talker, _: shutil.rmtree(talker), (), "llasa", ["talker/tokenizer.json is missing"]),
        (lambda _, codec: shutil.rmtree(codec), (), "llasa", ["codec/config.json is missing"]),
        (drop_shard, (), "llasa", ["model-00002-of-00002.safetensors is missing"]),
        (
            change_config("talker", rope_magic=3),
            (),
            "llasa",
            ["talker/config.json", "rope_magic", "allowed: "],
        ),
        (change_config("talker", num_hidden_layers=3), (), "llasa", ["model.layers.2"]),
        (
            lambda talker, _: cut_tensor(talker / "model.safetensors", "model.layers.0.mlp.up_proj.weight"),
            (),
            "llasa",
            ["talker/model.safetensors", "model.layers.0.mlp.up_proj.weight is [95, 64]", "[96, 64]"],
        ),
        (
            lambda _, codec: cut_tensor(codec / "model.safetensors", "quantizer.project_out.bias"),
            (),
            "llasa",
            ["codec/model.safetensors does not fit the config.json beside it", "quantizer.project_out.bias"],
        ),
        (change_config("codec", model_type="mimi"), (), "llasa", ["codec/config.json: model_type is 'mimi'"]),
        (
            lambda talker, _: (talker / "tokenizer.json").write_text("{"),
            (),
            "llasa",
            ["talker/tokenizer.json cannot be read as a fast tokenizer"],
        ),
        (
            lambda talker, _: (talker / "config.json").write_text("{"),
            (),
            "llasa",
            ["config.json is not JSON"],
        ),
        (lambda _, codec: (codec / "config.json").write_text("{"), (), "llasa", ["codec/config.json is not"]),
        (
            lambda talker, _: (talker / "model.safetensors").write_bytes(b"nothing"),
            (),
            "llasa",
            ["talker/model.safetensors"],
        ),
        (
            lambda talker, _: (talker / "medusa_lm_head.pt").write_bytes(b"nothing"),
            (),
            "llasa",
            ["talker/medusa_lm_head.pt cannot be read"],
        ),
        (None, ("--positions", "4096"), "llasa", ["--positions: 4096", "1 to 2048, the max_position_embed"]),
        (None, ("--positions", "100"), "llasa", ["segment_positions is 70; at least"]),
        (None, ("--phonemes", "own"), "llasa", ["--phonemes: 'own'"]),
    ],
)
def test_what_cannot_be_imported_is_named_and_leaves_nothing(
    spoil: Break | None,
    options: tuple[str, ...],
    family: str,
    sentences: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if spoil is not None:
        spoil(folder / "talker", folder / "codec")
    assert run(folder, *options, family=family) == 1
    said = capsys.readouterr().err
    assert said.count("error: ") == 1
    assert [sentence for sentence in sentences if sentence not in said] == [], said


def test_a_repository_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    before = (folder.parent / "repository" / "vocoder" / "1" / "format.json").stat()
    again = ["--codec", str(folder / "codec"), "--out", str(folder.parent / "repository")]
    assert main(["import-checkpoint", "llasa", str(folder / "talker"), *again]) == 1
    assert "repository is there already; allowed: a folder that is not" in capsys.readouterr().err
    assert (folder.parent / "repository" / "vocoder" / "1" / "format.json").stat() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bark", "talker"], "invalid choice: 'bark'"),
        (["llasa", "talker", "--silence", "one"], "invalid codes value: 'one'"),
        (["llasa"], "the following arguments are required: folder, --codec, --out"),
    ],
)
def test_the_command_line_is_checked(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["import-checkpoint", *arguments])
    assert sentence in capsys.readouterr().err


def test_the_doctor_judges_it_by_its_own_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    repository = folder.parent / "repository"

    def told() -> list[str]:
        """What the doctor says of the repository, rather than of this machine."""
        doctor.examine(repository, ())
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if "/1/" in line or "  family: " in line]

    whole = told()
    assert {line[:4] for line in whole} == {"ok  "} and "ok    family: llasa" in whole
    assert any("vocoder/1/config.json" in line for line in whole)
    (repository / "vocoder" / "1" / "config.json").unlink()
    (repository / "frontend" / "1" / "tokenizer.json").unlink()
    missing = [line for line in told() if line.startswith("MISS")]
    assert missing == ["MISS  vocoder/1/config.json: none", "MISS  family: cannot be loaded"]
