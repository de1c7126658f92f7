from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import listening_codec
import pytest
import torch
from fake_backend import FakeBackend
from fake_talker import Acknowledged
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.config import ModelConfig, SamplingDefaults
from talkahead.families.phonemic.family import Phonemic
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.generation_config import write_sampling
from talkahead.manifest import Manifest, sha256
from talkahead.speech_format import SpeechFormat
from talkahead.text.symbols import NUM_SYMBOLS
from tiny_drafts import put_drafts
from tiny_voice import CODES, LISTENING, SPEECH, write_codec


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny untrained artifacts in the shape of `model_repository`."""
    return _written(tmp_path_factory.mktemp("repository"), SPEECH)


@pytest.fixture(scope="session")
def listening_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, in a format that says that the codec encodes recordings."""
    return _written(tmp_path_factory.mktemp("listening"), LISTENING)


@pytest.fixture
def listening_repository(listening_files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """And served with such a codec."""
    monkeypatch.setattr(Phonemic, "codec", listening_codec.load)
    return listening_files


def _written(folder: Path, speech: SpeechFormat) -> Path:
    torch.manual_seed(0)
    write_codec(folder / "vocoder" / "1")
    speech.save(folder / "vocoder" / "1")
    encoder = TextEncoderConfig(voices=("slt", "rms"), num_symbols=NUM_SYMBOLS, width=32, heads=2, blocks=1)
    TextEncoder(encoder).save(folder / "encoder" / "1")
    llama = DecoderConfig(
        vocab_size=CODES + 1,
        eos_token_id=CODES,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1536,
    )
    Llama(llama).save(folder / "talker" / "1")
    write_sampling(SamplingDefaults(), folder / "talker" / "1")
    for model in ("vocoder", "encoder", "talker"):
        _describe(folder / model / "1")
    return folder


@pytest.fixture(scope="session")
def drafting_repository(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, and untrained drafts."""
    folder = tmp_path_factory.mktemp("drafting") / "repository"
    shutil.copytree(repository, folder)
    put_drafts(folder / "talker" / "1")
    return folder


def _describe(artifact: Path) -> None:
    files = {path.name: sha256(path) for path in artifact.iterdir()}
    Manifest("make tiny", "unknown", "none", 0, {}, files, "Apache-2.0").write(artifact)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def config_of(repository: Path) -> Callable[..., ModelConfig]:
    def config(model: str, folder: Path = repository, **parameters: str) -> ModelConfig:
        return ModelConfig.from_triton(
            {
                "model_repository": str(folder / model),
                "model_version": "1",
                "model_config": json.dumps(
                    {
                        "max_batch_size": 4,
                        "parameters": {name: {"string_value": text} for name, text in parameters.items()},
                    }
                ),
            }
        )

    return config


@pytest.fixture(autouse=True)
def meeting_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The models of a test meet in a folder of its own; `tmp_path`, made first, is too long for a socket."""
    with TemporaryDirectory(prefix="met-") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


@pytest.fixture
def talker() -> Iterator[Acknowledged]:
    receiver = Acknowledged()
    yield receiver
    receiver.close()
