"""`talkahead voices`: a recording becomes a voice that is spoken as the recording itself would be."""

from __future__ import annotations

import json
import shutil
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from public_folders import Public, write_codec, write_llasa, write_neutts, write_orpheus
from talkahead.audio.recording import read_wav
from talkahead.draft_training.reader import Reader
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.imported_checkpoint import Download
from talkahead.families.importing import read_checkpoint
from talkahead.families.registry import load_family
from talkahead.families.repository_writer import write_repository
from talkahead.launcher.command import main
from talkahead.serving.reference_reader import ReferenceReader
from talkahead.speech_format import SpeechFormat
from tiny_voice import SPEECH as PHONEMIC
from tiny_voice import write_repository as write_phonemic

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

WRITERS: dict[str, Callable[[Path], Public]] = {
    "llasa": write_llasa,
    "orpheus": write_orpheus,
    "neutts": write_neutts,
}
SAID, TEXT = "It's easy to tell.", "Hello there, fine punch!"
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=WRITERS)
def pristine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param)
    WRITERS[request.param](folder / "talker")
    write_codec(request.param, folder / "codec")
    download = Download(folder / "talker", folder / "codec")
    write_repository(read_checkpoint(request.param, download), folder / "repository")
    return folder / "repository"


@pytest.fixture
def repository(pristine: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine, tmp_path / "repository")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A second and a half in stereo at a rate that no codec has."""
    path, rate_hz = tmp_path / "jo.wav", 22_050
    noise = 0.1 * np.random.default_rng(0).standard_normal((3 * rate_hz // 2, 2))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((noise * 32_768).astype("<i2").tobytes())
    return path


def run(verb: str, repository: Path, *given: object) -> int:
    return main(["voices", verb, *map(str, given), "--repository", str(repository)])


def names(repository: Path) -> list[str]:
    speech = SpeechFormat.read(repository / "vocoder" / "1")
    return [voice.name for voice in load_family(speech.family).voices(repository / "encoder" / "1")]


def test_a_voice_is_spoken_as_its_recording_would_be(
    repository: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = names(repository)
    assert run("add", repository, "jo", recording, "--text", SAID) == 0
    assert "voices: jo added, 1." in capsys.readouterr().out
    assert names(repository) == [*own, "jo"]
    speech = SpeechFormat.read(repository / "vocoder" / "1")
    family = load_family(speech.family)
    frontend = family.frontend(repository / "frontend" / "1", speech)
    encoder = family.prompt_encoder(repository / "encoder" / "1", CPU)
    audio = read_wav(recording, speech.sample_rate_hz)
    heard = ReferenceReader(speech, frontend, "").read(audio, SAID)
    codes = family.codec(repository / "vocoder" / "1", CPU).encode(heard.audio)
    assert len(np.unique(codes)) > 1
    voice = family.voices(repository / "encoder" / "1")[-1]
    assert voice.is_fixed and voice.said == SAID
    (named,) = frontend.segments(TEXT, voice.said)
    prompt, like = encoder.prompt(named.units, len(own), None), len(own) + 1
    torch.testing.assert_close(prompt, encoder.prompt(named.units, like, codes), rtol=0, atol=0)
    spoken = encoder.spoken(len(own), None)
    assert spoken is not None and np.array_equal(spoken, codes)
    assert len(prompt) > len(named.units) + codes.size - 2


def test_voices_are_listed_and_removed(
    repository: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = names(repository)
    for name in ("jo", "al"):
        assert run("add", repository, name, recording, "--text", SAID) == 0
    capsys.readouterr()
    assert run("list", repository) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*own, "al", "jo"]
    assert lines[-1].startswith("jo  added, 1.") and lines[:-2] == own
    assert run("remove", repository, "al") == 0 and names(repository) == [*own, "jo"]
    for name in ("al", "default", "tara", "../encoder", "jo.json"):
        assert run("remove", repository, name) == 1
        assert f"NAME: {name!r} was not added here; allowed: jo" in capsys.readouterr().err
    assert run("remove", repository, "jo") == 0 and names(repository) == own
    assert run("remove", repository, "jo") == 1 and "allowed: none" in capsys.readouterr().err


def test_a_name_is_given_once(repository: Path, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add", repository, "jo", recording, "--text", SAID) == 0
    for name in ("jo", *names(repository)[:1]):
        assert run("add", repository, name, recording, "--text", SAID) == 1
        assert f"NAME: '{name}' is not accepted; allowed: one that no voice has" in capsys.readouterr().err
    assert run("add", repository, "jo", recording, "--text", "Something else.", "--replace") == 0
    (kept,) = (repository / "encoder" / "1" / "voices").iterdir()
    assert json.loads(kept.read_text())["said"] == "Something else."
    for name in ("", "a/b", ".jo", "jö", "x" * 65):
        assert run("add", repository, name, recording, "--text", SAID) == 1
        assert "1 to 64 of A-Z" in capsys.readouterr().err


def test_what_no_request_could_bring_is_no_voice(
    repository: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("add", repository, "jo", recording, "--text", " ") == 1
    assert "REFERENCE_TEXT" in capsys.readouterr().err
    assert run("add", repository, "jo", tmp_path / "none.wav", "--text", SAID) == 1
    assert "none.wav" in capsys.readouterr().err
    assert not (repository / "encoder" / "1" / "voices").exists()


def test_codes_of_another_codec_are_not_spoken(repository: Path, recording: Path) -> None:
    assert run("add", repository, "jo", recording, "--text", SAID) == 0
    path = repository / "vocoder" / "1" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["model.safetensors"] = "other"
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactMismatch, match=r"codes of another codec .*talkahead voices remove jo"):
        names(repository)
    assert run("remove", repository, "jo") == 0
    assert "jo" not in names(repository)


def test_drafts_learn_from_a_voice_that_was_added(repository: Path, recording: Path) -> None:
    """NeuTTS has no other."""
    if not names(repository):
        with pytest.raises(TalkaheadError, match="add one with: talkahead voices add"):
            Reader(repository)
    assert run("add", repository, "jo", recording, "--text", SAID) == 0
    reader = Reader(repository)
    (passage,) = reader.passages(TEXT)
    lengths = [len(reader.prompt(passage, voice)) for voice in range(len(reader.voices))]
    assert lengths[-1] > 50 and all(length < lengths[-1] for length in lengths[:-1])


def test_a_codec_without_ears_keeps_no_voices(
    tmp_path: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = write_phonemic(tmp_path / "phonemic", PHONEMIC)
    assert run("add", repository, "jo", recording, "--text", SAID) == 1
    assert "this server has voices of its own alone" in capsys.readouterr().err
