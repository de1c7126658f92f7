"""Imported codecs by ONNX Runtime and OpenVINO do what torch does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fsq_folder import write_folder
from public_folders import SMALL_SNAC
from talkahead.config import AUTO
from talkahead.errors import ArtifactMismatch
from talkahead.families import fsq_network
from talkahead.families.contracts import TORCH, Codec, Frames
from talkahead.families.fsq_network import LISTENER
from talkahead.families.llasa.codec import Xcodec2Codec
from talkahead.families.neutts.codec import NeuCodec
from talkahead.families.onnx_network import ONNXRUNTIME, OnnxNetwork
from talkahead.families.openvino_network import OPENVINO
from talkahead.families.orpheus import codec as orpheus
from talkahead.families.registry import load_family
from talkahead.manifest import Manifest
from talkahead.speech_format import SpeechFormat
from tiny_voice import describe
from transformers import NeuCodecModel, Xcodec2Model
from unit.families.codec_windows import cut, spoken

from build_engines.__main__ import main
from build_engines.network_sources import networks_of
from instruments.public_codecs import write_snac

# SNAC scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

CPU = torch.device("cpu")
FRAMES, SIZES = 24, [4, 8, 1, 11]
ENGINES = {"llasa": (ONNXRUNTIME, OPENVINO), "neutts": (ONNXRUNTIME, OPENVINO), "orpheus": (ONNXRUNTIME,)}


def write_codec(family: str, folder: Path) -> None:
    """A vocoder's version folder, as an import leaves it."""
    codec: Any
    if family == "orpheus":
        orpheus.convert_weights(write_snac(folder.parent / "published", SMALL_SNAC), folder)
        codec = orpheus.load_codec(folder, CPU)
    else:
        write_folder(folder, {"llasa": Xcodec2Model, "neutts": NeuCodecModel}[family])
        codec = {"llasa": Xcodec2Codec, "neutts": NeuCodec}[family].load(folder, CPU)
    codec.speech_format(2048, 900, silence=(0,) * (7 if family == "orpheus" else 1)).save(folder)
    describe(folder)


@dataclass(frozen=True)
class Built:
    family: str
    repository: Path

    @property
    def version(self) -> Path:
        return self.repository / "vocoder" / "1"

    def codec(self, engine: str) -> Codec:
        return load_family(self.family).codec(self.version, CPU, engine)


@pytest.fixture(scope="module", params=ENGINES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    one = Built(request.param, tmp_path_factory.mktemp(request.param) / "repository")
    one.version.mkdir(parents=True)
    write_codec(one.family, one.version)
    assert main(["export", "--repository", str(one.repository)]) == 0
    return one


def draw(speech: SpeechFormat, seed: int) -> Frames:
    draw = np.random.default_rng(seed)
    return np.stack([draw.integers(0, size, FRAMES) for size in speech.codebooks], axis=1).astype(np.int32)


def test_windows_side_by_side_are_those_of_torch(built: Built) -> None:
    speech = SpeechFormat.read(built.version)
    utterances = [
        list(cut(draw(speech, seed), SIZES, speech.context_frames, speech.lookahead_frames))
        for seed in (1, 2)
    ]
    expected = spoken(built.codec(TORCH), utterances)
    for engine in ENGINES[built.family]:
        codec = built.codec(engine)
        allowed = 5e-5 if codec.precision is torch.float32 else 2e-2
        for audio, wanted in zip(spoken(codec, utterances), expected, strict=True):
            np.testing.assert_allclose(audio, wanted, rtol=0, atol=allowed * np.abs(wanted).max())


def test_the_fastest_engine_that_was_exported_is_taken(built: Built, tmp_path: Path) -> None:
    fastest = ENGINES[built.family][-1]
    assert built.codec(AUTO).precision is built.codec(fastest).precision
    assert type(built.codec(AUTO)._network) is type(built.codec(fastest)._network)  # type: ignore[attr-defined]
    bare = Built(built.family, tmp_path)
    bare.version.mkdir(parents=True)
    for file in built.version.iterdir():
        if file.is_file():
            (bare.version / file.name).symlink_to(file)
    assert isinstance(bare.codec(AUTO)._network, torch.nn.Module)  # type: ignore[attr-defined]
    with pytest.raises(
        ArtifactMismatch, match=rf"missing; build the engine with: .* vocoder --repository {tmp_path}"
    ):
        spoken(bare.codec(fastest), [list(cut(draw(SpeechFormat.read(bare.version), 1), [FRAMES], 0, 0))])


def test_a_manifest_tells_of_every_engine_and_of_what_made_the_file(built: Built) -> None:
    manifest = Manifest.read(fsq_network.NETWORK.folder_in(built.version))
    assert set(manifest.metrics) == set(ENGINES[built.family])
    assert all(0 < figures["mean"] <= 4e-3 for figures in manifest.metrics.values())
    assert len(manifest.engine["shapes"]["codes"]) == 3
    assert {"torch", "onnx", *ENGINES[built.family]} <= set(manifest.engine["versions"])


def test_an_engine_that_a_codec_does_not_have_is_refused(built: Built) -> None:
    allowed = "openvino, onnxruntime, torch" if OPENVINO in ENGINES[built.family] else "onnxruntime, torch"
    with pytest.raises(
        ArtifactMismatch, match=f"'native' is none of this codec on cpu; allowed: auto, {allowed}"
    ):
        built.codec("native")


HEARING = ("llasa", "neutts")
RECORDING = np.random.default_rng(3).normal(0.0, 0.1, 30 * 480).astype(np.float32)


def test_recordings_are_heard_as_by_torch(built: Built) -> None:
    codes = {engine: built.codec(engine).encode(RECORDING) for engine in (TORCH, AUTO)}
    assert len(codes[TORCH]) > 4
    np.testing.assert_array_equal(codes[AUTO], codes[TORCH])
    if built.family in HEARING:
        assert isinstance(built.codec(AUTO)._listener, OnnxNetwork)  # type: ignore[attr-defined]


def test_a_listener_has_its_own_file_and_manifest(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    folder, named = LISTENER.folder_in(built.version), ["--repository", str(built.repository)]
    assert folder.exists() == (built.family in HEARING)
    if built.family not in HEARING:
        assert main(["export", "listener", *named]) == 1
        assert "family: 'orpheus' hears with no network that engines" in capsys.readouterr().err
        return
    manifest = Manifest.read(folder)
    assert manifest.command.endswith(f"export listener --repository {built.repository}")
    assert set(manifest.metrics) == {ONNXRUNTIME} and len(manifest.engine["shapes"]["features"]) == 3
    assert main(["parity", "listener", ONNXRUNTIME, *named]) == 0
    assert main(["parity", "listener", OPENVINO, *named]) == 1
    assert "'openvino' is none of this listener on cpu" in capsys.readouterr().err


def test_a_codec_that_hears_nothing_is_given_no_listener(tmp_path: Path) -> None:
    deaf = Built("llasa", tmp_path / "deaf")
    deaf.version.mkdir(parents=True)
    write_codec("llasa", deaf.version)
    replace(SpeechFormat.read(deaf.version), has_encoder=False).save(deaf.version)
    assert networks_of(deaf.repository) == ("vocoder",)
