"""The codec by ONNX Runtime sounds as by torch, and what is not such an engine is refused by a sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import Codec
from talkahead.families.phonemic.onnx_decoder import FILE, ONNXRUNTIME, OnnxDecoder, engine_folder
from talkahead.families.phonemic.spectral_codec import CONTEXT, SpectralCodec, speech_format
from talkahead.families.phonemic.spectral_decoder import SpectralConfig, SpectralDecoder
from talkahead.families.registry import load_family
from talkahead.manifest import NAME, Manifest, readable_files

from build_engines import export
from tests.unit.families.codec_windows import cut, spoken

SMALL = SpectralConfig(width=16, inner=24, blocks=3, hidden=8, pitch_width=16)
CPU = torch.device("cpu")


def decoder(seed: int) -> SpectralDecoder:
    torch.manual_seed(seed)
    made = SpectralDecoder(SMALL).eval().requires_grad_(False)
    made.spectra.bias.fill_(-3.0)
    return made


def write_vocoder(version: Path) -> None:
    decoder(3).save(version)
    speech_format(SMALL, silence=0, max_positions=1_536).save(version)
    files = readable_files([version / "codec.safetensors"])
    Manifest("make train", "unknown", "", 1, {}, files, "Apache-2.0").write(version)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an engine."""
    repository = tmp_path_factory.mktemp("built")
    write_vocoder(repository / "vocoder" / "1")
    export.run(argparse.Namespace(repository=repository))
    return repository


@pytest.fixture
def version(built: Path, tmp_path: Path) -> Path:
    """A copy of its vocoder, to be spoilt."""
    return Path(copytree(built / "vocoder" / "1", tmp_path / "vocoder" / "1"))


def codec(version: Path, engine: str) -> Codec:
    return load_family("phonemic").codec(version, CPU, engine)


def test_windows_side_by_side_join_into_what_torch_decodes_at_once(built: Path) -> None:
    version = built / "vocoder" / "1"
    draw = np.random.default_rng(1)
    frames = [draw.integers(0, SMALL.num_codes, (30, 1)).astype(np.int32) for _ in range(3)]
    sizes = ([10, 10, 10], [7, 1, 22], [12, 8, 10])
    windows = [
        list(cut(one, size, CONTEXT, SMALL.lookahead_frames)) for one, size in zip(frames, sizes, strict=True)
    ]
    engine, in_float32 = codec(version, ONNXRUNTIME), SpectralCodec(SpectralDecoder.load(version), CPU)
    streamed, (alone,) = spoken(engine, windows), spoken(engine, windows[1:2])
    for one, audio in zip([*frames, frames[1]], [*streamed, alone], strict=True):
        (offline,) = spoken(in_float32, [list(cut(one, [30], CONTEXT, SMALL.lookahead_frames))])
        np.testing.assert_allclose(audio, offline, rtol=0, atol=2e-4 * np.abs(offline).max())


def test_its_manifest_says_how_near_it_comes(built: Path) -> None:
    manifest = Manifest.read(engine_folder(built / "vocoder" / "1"))
    assert 0 < manifest.metrics["largest"] <= export.TOLERANCE.largest
    assert f"build_engines export --repository {built}" in manifest.command


def test_another_network_does_not_pass(built: Path) -> None:
    engine = OnnxDecoder(engine_folder(built / "vocoder" / "1") / FILE, SMALL, threads=1)
    assert export.compare(decoder(3), engine).passes
    assert not export.compare(decoder(4), engine).passes


def test_what_does_not_pass_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version, right = tmp_path / "vocoder" / "1", export.write
    write_vocoder(version)
    monkeypatch.setattr(export, "write", lambda network, path: right(decoder(4), path))
    before = sorted(version.iterdir())
    with pytest.raises(ArtifactMismatch, match=r"codec\.onnx does not sound like torch"):
        export.run(argparse.Namespace(repository=tmp_path))
    assert sorted(version.iterdir()) == before


def test_a_codec_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TalkaheadError, match="holds no spectral codec"):
        export.run(argparse.Namespace(repository=tmp_path))


def cut_short(version: Path) -> None:
    path = engine_folder(version) / FILE
    path.write_bytes(path.read_bytes()[:1_000])


def remove(version: Path) -> None:
    (engine_folder(version) / NAME).unlink()


def learn_on(version: Path) -> None:
    decoder(5).save(version)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut_short, r"codec\.onnx is not the file that manifest\.json describes; rebuild it with: .*export"),
        (remove, r"manifest\.json is missing; build the engine with: .*export --repository "),
        (learn_on, r"was made of other weights than .*codec\.safetensors; rebuild it with: .*export"),
    ],
)
def test_an_engine_that_does_not_fit_is_refused(
    spoil: Callable[[Path], None], reason: str, version: Path
) -> None:
    spoil(version)
    with pytest.raises(ArtifactMismatch, match=reason):
        codec(version, ONNXRUNTIME)


def test_a_file_that_is_no_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"onnx")
    with pytest.raises(ArtifactMismatch, match="is no network that ONNX Runtime takes"):
        OnnxDecoder(tmp_path / FILE, SMALL, threads=1)


def test_an_engine_that_there_is_not_is_refused(version: Path) -> None:
    with pytest.raises(ArtifactMismatch, match=r"engine: 'tensorrt' is none .* allowed: .*onnxruntime"):
        codec(version, "tensorrt")
