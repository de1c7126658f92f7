from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import listening_codec
import pytest
from fake_backend import FakeBackend
from fake_talker import Acknowledged
from talkahead.config import ModelConfig
from talkahead.families.phonemic.family import Phonemic
from tiny_drafts import put_drafts
from tiny_voice import LISTENING, SPEECH, write_repository


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny untrained artifacts in the shape of `model_repository`."""
    return write_repository(tmp_path_factory.mktemp("repository"), SPEECH)


@pytest.fixture(scope="session")
def listening_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, in a format that says that the codec encodes recordings."""
    return write_repository(tmp_path_factory.mktemp("listening"), LISTENING)


@pytest.fixture
def listening_repository(listening_files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """And served with such a codec."""
    monkeypatch.setattr(Phonemic, "codec", listening_codec.load)
    return listening_files


@pytest.fixture(scope="session")
def drafting_repository(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, and untrained drafts."""
    folder = tmp_path_factory.mktemp("drafting") / "repository"
    shutil.copytree(repository, folder)
    put_drafts(folder / "talker" / "1")
    return folder


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
def socket_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The models of a test meet in a folder of its own; `tmp_path`, made first, is too long for a socket."""
    with TemporaryDirectory(prefix="met-") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


@pytest.fixture
def talker() -> Iterator[Acknowledged]:
    receiver = Acknowledged()
    yield receiver
    receiver.close()
