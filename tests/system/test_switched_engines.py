"""The codec's engine is switched under load: no stream notices, and what does not fit is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import pytest
from hearing import SAME_FRAMES, Neighbour, Utterance, difference, speak
from served import REPOSITORY, Served, served
from talkahead.families.contracts import TORCH
from talkahead.families.native_engine import NATIVE
from talkahead.families.onnx_network import ONNXRUNTIME
from talkahead.families.phonemic.exported_decoder import NETWORK
from talkahead.manifest import NAME
from talkahead_client import Client
from texts import SENTENCES
from waiting import eventually

from build_engines.__main__ import main

pytestmark = pytest.mark.patient

SWITCHES = 4
ENGINES = (NATIVE, ONNXRUNTIME)
LONG = {"text": " ".join(SENTENCES * 4), "seed": 3}
"""Minutes of speech in many segments, which are spoken while an engine is switched."""
MEDIUM = {"text": " ".join(SENTENCES), "seed": 3}
SHORT = {"text": SENTENCES[0], "seed": 4}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the model repository with an engine of its codec."""
    copy = tmp_path_factory.mktemp("switched") / "model_repository"
    shutil.copytree(REPOSITORY, copy)
    assert main(["export", "vocoder", "--repository", str(copy)]) == 0
    yield copy
    shutil.rmtree(copy)


@pytest.fixture(scope="module")
def key(repository: Path) -> Path:
    return repository.with_name("key")


@pytest.fixture(scope="module")
def server(repository: Path, key: Path) -> Iterator[Served]:
    # After an engine that was refused, Triton 24.10 waits out its exit timeout.
    with served("--repository", repository, "--model-control", key, "--exit-timeout", "1") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Client]:
    with Client(server.grpc) as connected:
        yield connected


@pytest.fixture(scope="module")
def native(server: Served, client: Client, key: Path) -> Utterance:
    """What the server says as it begins, whichever test has been the first."""
    assert switch(server, key, NATIVE)
    return speak(client, **LONG)


def switch(server: Served, key: Path, engine: str, *more: str, model: str = "vocoder") -> bool:
    """Whether the server took it."""
    where = ["--server", server.grpc, "--model-control", str(key)]
    return main(["switch", model, engine, *more, *where]) == 0


def test_streams_end_on_the_engine_that_they_began_with(
    server: Served, client: Client, key: Path, native: Utterance
) -> None:
    """Each is spoken over a switch, some over several; what begins after it is the other engine's."""
    long, short = {NATIVE: native}, {NATIVE: speak(client, **SHORT)}
    assert switch(server, key, ONNXRUNTIME)
    long[ONNXRUNTIME], short[ONNXRUNTIME] = speak(client, **LONG), speak(client, **SHORT)
    assert difference(*(one.audio for one in long.values())) > 0, "nothing tells the engines apart"
    over: list[tuple[Neighbour, float]] = []
    for turn in range(SWITCHES):
        before, after = ENGINES[1 - turn % 2], ENGINES[turn % 2]
        stream = Neighbour(client, long[before], **LONG)
        assert switch(server, key, after)
        over.append((stream, perf_counter()))
        assert difference(speak(client, **SHORT).audio, short[after].audio) < SAME_FRAMES
    for stream, switched_s in over:
        stream.finish(after_s=switched_s)
    eventually(server.model_pids, lambda pids: len(pids) == 5)


def test_two_switches_at_once_come_one_after_the_other(server: Served, client: Client, key: Path) -> None:
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(lambda engine: switch(server, key, engine), (TORCH, NATIVE)))
    speak(client, **SHORT)
    eventually(server.model_pids, lambda pids: len(pids) == 5)


def cut_short(engine: Path) -> None:
    path = engine / NETWORK.name
    path.write_bytes(path.read_bytes()[:1_000])


def remove_manifest(engine: Path) -> None:
    (engine / NAME).unlink()


def test_an_engine_that_does_not_fit_is_refused_and_the_old_one_goes_on(
    server: Served,
    client: Client,
    key: Path,
    repository: Path,
    native: Utterance,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert switch(server, key, NATIVE)
    stream = Neighbour(client, native, **LONG)
    for spoil, reason in ((cut_short, "is not the file that"), (remove_manifest, "build the engine with: ")):
        spoil(NETWORK.folder_in(repository / "vocoder" / "1"))
        capsys.readouterr()
        assert not switch(server, key, ONNXRUNTIME)
        refusal = capsys.readouterr().err
        assert refusal.startswith("error: vocoder stays as it is: ") and reason in refusal
        assert "python -m build_engines export vocoder --repository " in refusal
    stream.finish()
    speak(client, **SHORT)


def test_a_talker_is_drained_while_another_takes_what_is_new(
    server: Served, client: Client, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Streams are spoken one after another over the switch: each by one talker, frame by frame."""
    assert switch(server, key, NATIVE)
    before, over = speak(client, **MEDIUM), list[Utterance]()
    with ThreadPoolExecutor() as pool:
        switched = pool.submit(switch, server, key, "native", "--precision", "float32", model="talker")
        while not switched.done():
            over.append(speak(client, **MEDIUM))
        assert switched.result()
    assert "switch: talker from auto int8 to native float32, in " in capsys.readouterr().out
    after = speak(client, **MEDIUM)
    assert difference(before.audio, after.audio) > SAME_FRAMES, "nothing tells the talkers apart"
    assert difference(over[0].audio, before.audio) < SAME_FRAMES
    for one in over:
        assert min(difference(one.audio, whole.audio) for whole in (before, after)) < SAME_FRAMES
    for engine, precision, reason in (
        ("onnxruntime", "int8", "decoder: 'onnxruntime' is not accepted; allowed: auto, torch, native"),
        ("auto", "int7", "precision: 'int7' is not accepted; allowed: float32, bfloat16, int8"),
    ):
        assert not switch(server, key, engine, "--precision", precision, model="talker")
        assert f"talker stays as it is: talker: parameter {reason}" in capsys.readouterr().err
    eventually(server.model_pids, lambda pids: len(pids) == 5)


def test_names_and_keys_that_there_are_not_change_nothing(
    server: Served, client: Client, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not switch(server, key, "tensorrt")
    assert (
        "engine: 'tensorrt' is none of this codec on cpu; allowed: auto, native, torch"
        in capsys.readouterr().err
    )
    other = tmp_path / "other"
    other.write_text("another-key-than-its-own")
    assert not switch(server, other, "torch")
    assert f"was started with another key than that of {other}" in capsys.readouterr().err
    speak(client, **SHORT)
