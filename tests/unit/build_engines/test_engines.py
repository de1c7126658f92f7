"""Networks by ONNX Runtime do what torch does; what is not such an engine is refused by a sentence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch
from talkahead.families.contracts import TORCH, CodecWindow, Frames
from talkahead.families.native_engine import NATIVE
from talkahead.families.onnx_network import ONNXRUNTIME, OnnxNetwork
from talkahead.families.phonemic import exported_decoder
from talkahead.families.phonemic.onnx_text_encoder import NETWORK
from talkahead.families.phonemic.prompt import load_network
from talkahead.families.phonemic.spectral_codec import SpectralCodec
from talkahead.families.phonemic.spectral_decoder import SpectralDecoder
from talkahead.families.phonemic.text_encoder import TextEncoder
from talkahead.families.registry import load_family
from talkahead.manifest import NAME, Manifest
from tiny_voice import CODES, SPEECH, describe, write_repository
from unit.families.codec_windows import cut, spoken

from build_engines import export
from build_engines.__main__ import main
from build_engines.network_sources import MODELS

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an engine of each model."""
    repository = write_repository(tmp_path_factory.mktemp("built"))
    assert main(["export", "--repository", str(repository)]) == 0
    return repository


@pytest.fixture
def repository(built: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return Path(shutil.copytree(built, tmp_path / "repository"))


def load(repository: Path, model: str, engine: str = ONNXRUNTIME) -> object:
    """As the model's server does."""
    family, version = load_family("phonemic"), repository / model / "1"
    return (family.codec if model == "vocoder" else family.prompt_encoder)(version, CPU, engine)


def cut_up(frames: Frames, sizes: Sequence[int]) -> list[CodecWindow]:
    return list(cut(frames, sizes, SPEECH.context_frames, SPEECH.lookahead_frames))


def test_windows_side_by_side_join_into_what_torch_decodes_at_once(built: Path) -> None:
    version = built / "vocoder" / "1"
    draw = np.random.default_rng(1)
    frames = [draw.integers(0, CODES, (30, 1)).astype(np.int32) for _ in range(3)]
    sizes = ([10, 10, 10], [7, 1, 22], [12, 8, 10])
    windows = [cut_up(one, size) for one, size in zip(frames, sizes, strict=True)]
    engine = load_family("phonemic").codec(version, CPU, ONNXRUNTIME)
    in_float32 = SpectralCodec(SpectralDecoder.load(version), CPU)
    streamed, (alone,) = spoken(engine, windows), spoken(engine, windows[1:2])
    for one, audio in zip([*frames, frames[1]], [*streamed, alone], strict=True):
        (offline,) = spoken(
            in_float32, [list(cut(one, [30], SPEECH.context_frames, SPEECH.lookahead_frames))]
        )
        np.testing.assert_allclose(audio, offline, rtol=0, atol=1e-3 * np.abs(offline).max())


@pytest.mark.parametrize("length", [1, 2, 70])
def test_prompts_of_any_length_and_voice_are_those_of_torch(built: Path, length: int) -> None:
    version = built / "encoder" / "1"
    engine, in_float32 = load_network(version, CPU, ONNXRUNTIME), TextEncoder.load(version)
    symbols = torch.randint(0, 8, (length, 4), dtype=torch.int32)
    for voice in range(len(in_float32.config.voices) + 1):
        prompt, expected = engine.prompt(symbols, voice), in_float32.prompt(symbols, voice)
        torch.testing.assert_close(prompt, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_a_manifest_says_how_near_an_engine_comes(model: str, built: Path) -> None:
    manifest = Manifest.read(exported_decoder.NETWORK.folder_in(built / model / "1"))
    assert 0 < manifest.metrics[ONNXRUNTIME]["mean"] <= 1e-5
    assert f"build_engines export {model} --repository {built}" in manifest.command


@pytest.mark.parametrize(
    ("model", "engine"),
    list(product(MODELS, (AUTO, NATIVE, TORCH, ONNXRUNTIME))),
)
def test_parity_shows_what_it_found(
    model: str, engine: str, built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parity", model, engine, "--repository", str(built)]) == 0
    shown = capsys.readouterr().out
    assert "largest difference" in shown and "| no |" not in shown


def retrain(repository: Path, model: str) -> None:
    """Other weights of the same shapes."""
    version = repository / model / "1"
    network = (SpectralDecoder if model == "vocoder" else TextEncoder).load(version)
    for parameter in network.parameters():
        parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    network.save(version)
    describe(version)


@pytest.mark.parametrize("model", MODELS)
def test_another_network_does_not_pass_and_gets_no_name(
    model: str, repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is traced is of other weights than what it is compared with."""
    source = MODELS[model](repository)
    file, engine = source.version / "other.onnx", exported_decoder.NETWORK.folder_in(source.version)
    shutil.copyfile(engine / source.file.name, file)
    retrain(repository, model)
    shutil.rmtree(engine)
    monkeypatch.setattr(export, "write_onnx", lambda trace, _, path: shutil.copyfile(file, path))
    before = sorted(source.version.iterdir())
    assert main(["export", model, "--repository", str(repository)]) == 1
    shown = capsys.readouterr()
    assert "| no |" in shown.out and "does not do what torch does in float32" in shown.err
    assert sorted(source.version.iterdir()) == before


def cut_short(repository: Path, model: str) -> None:
    path = exported_decoder.NETWORK.folder_in(repository / model / "1") / MODELS[model](repository).file.name
    path.write_bytes(path.read_bytes()[:1_000])


def remove_manifest(repository: Path, model: str) -> None:
    (exported_decoder.NETWORK.folder_in(repository / model / "1") / NAME).unlink()


def take_the_other(repository: Path, model: str) -> None:
    """The engine of the other model, manifest and all."""
    (other,) = set(MODELS) - {model}
    folder = exported_decoder.NETWORK.folder_in(repository / model / "1")
    shutil.rmtree(folder)
    shutil.copytree(exported_decoder.NETWORK.folder_in(repository / other / "1"), folder)


def change_format(repository: Path, _: str) -> None:
    version = repository / "vocoder" / "1"
    replace(SPEECH, max_positions=SPEECH.max_positions + 1).save(version)
    describe(version)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut_short, "is not the file that manifest.json describes; rebuild it with: "),
        (remove_manifest, "manifest.json is missing; build the engine with: "),
        (retrain, "was made of other weights than "),
        (change_format, "was made for another format than "),
        (take_the_other, "manifest.json describes no "),
    ],
)
def test_an_engine_that_does_not_fit_is_refused_with_the_command_that_rebuilds_it(
    spoil: Callable[[Path, str], None], reason: str, model: str, repository: Path
) -> None:
    spoil(repository, model)
    with pytest.raises(ArtifactMismatch, match=reason) as refusal:
        load(repository, model)
    assert f"python -m build_engines export {model} --repository " in str(refusal.value)


def test_files_that_are_no_such_network_are_refused(built: Path, tmp_path: Path) -> None:
    (tmp_path / NETWORK.name).write_bytes(b"onnx")
    with pytest.raises(ArtifactMismatch, match="is no network that ONNX Runtime takes"):
        OnnxNetwork(tmp_path / NETWORK.name, NETWORK, threads=1)
    codec = exported_decoder.NETWORK.folder_in(built / "vocoder" / "1") / exported_decoder.NETWORK.name
    with pytest.raises(ArtifactMismatch, match=r"takes and gives the tensors .*'codes'.*, not .*'symbols'"):
        OnnxNetwork(codec, NETWORK, threads=1)


@pytest.mark.parametrize("model", MODELS)
def test_an_engine_that_there_is_not_is_refused(model: str, built: Path) -> None:
    with pytest.raises(ArtifactMismatch, match=r"'tensorrt' is none .* allowed: auto, .*torch, onnxruntime"):
        load(built, model, "tensorrt")


def test_an_encoder_without_a_network_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository / "vocoder" / "1" / "format.json"
    path.write_text(path.read_text().replace('"phonemic"', '"llasa"'))
    assert main(["export", "encoder", "--repository", str(repository)]) == 1
    assert "of the family llasa, whose encoder looks rows up in a table" in capsys.readouterr().err
