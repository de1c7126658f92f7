"""Models that die, and models that do not load."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hearing import speak
from served import REPOSITORY, Served
from talkahead_client import Client, SpeechError
from texts import SENTENCES

pytestmark = pytest.mark.patient

STREAMS = 4
WAIT_LIMIT_S = 30.0
"""For what takes two seconds, on a machine whose cores may all be taken."""


def test_death_of_a_model_ends_every_stream_and_the_server_comes_back() -> None:
    with Served("--restarts", "1") as server, Client(server.wait_until_ready().grpc) as client:
        before = speak(client, SENTENCES[0], seed=1, max_seconds=1.0)
        # Long enough not to be over when the model dies.
        streams = [client.speak(" ".join(SENTENCES), seed=seed) for seed in range(STREAMS)]
        for stream in streams:
            next(stream)
        server.kill_model("talker")
        for stream in streams:
            with pytest.raises(SpeechError):
                list(stream)
        server.wait_for(r"model talker died")
        server.wait_for(r"restarting the server on the same ports \(0 restarts left\)")
        server.wait_until_ready(count=2)
        after = speak(client, SENTENCES[0], seed=1, max_seconds=1.0)
        assert (after.audio == before.audio).all()

        server.kill_model("vocoder")
        assert server.exit_status() == 1
        assert "model vocoder died" in server.log
        assert server.log.endswith("giving up")


def truncate(repository: Path) -> None:
    weights = repository / "talker" / "1" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])


def swap(repository: Path) -> None:
    """Weights of the right form that the manifest does not describe."""
    weights = repository / "vocoder" / "1" / "codec.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


def remove(repository: Path) -> None:
    (repository / "encoder" / "1" / "encoder.json").unlink()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Path]:
    """A copy of the model repository, removed at once: pytest would keep the weights of several runs."""
    copy = tmp_path / "model_repository"
    shutil.copytree(REPOSITORY, copy)
    yield copy
    shutil.rmtree(copy)


@pytest.mark.parametrize(
    ("model", "file", "damage"),
    [
        ("talker", "model.safetensors", truncate),
        ("vocoder", "codec.safetensors", swap),
        ("encoder", "encoder.json", remove),
    ],
    ids=["truncated", "swapped", "missing"],
)
def test_model_that_does_not_load_ends_the_command_with_the_reason(
    model: str, file: str, damage: Callable[[Path], None], repository: Path
) -> None:
    damage(repository)
    with Served("--repository", repository) as server:
        assert server.exit_status() == 1
    assert f"model {model} did not load" in server.log
    assert file in server.log
    assert "rebuild it with" in server.log or "make train" in server.log
    assert "\nready " not in server.log
    assert server.log.endswith("giving up")


def end_before_a_word(repository: Path) -> None:
    """A model may bring a process of its own, which Triton waits for without end when it dies at once."""
    process = repository / "control" / "triton_python_backend_stub"
    process.write_text("#!/bin/sh\necho cannot open libpython >&2\nexit 127\n")
    process.chmod(0o755)


def end_by_signal(repository: Path) -> None:
    """As the kernel ends what there is no memory for."""
    (repository / "control" / "1" / "model.py").write_text("import os\nos.kill(os.getpid(), 9)\n")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (
            end_before_a_word,
            r"(\(pid \d+, status 127\) )?during the start; printed last: .*cannot open libpython",
        ),
        (end_by_signal, r"(\(pid \d+, SIGKILL\) )?during the start"),
    ],
)
def test_process_that_ends_while_it_loads_ends_the_wait(
    end: Callable[[Path], None], reason: str, repository: Path
) -> None:
    """With its status, unless the server had asked for that before it could be seen."""
    end(repository)
    with Served("--repository", repository) as server:
        server.wait_for(f"error: the process of .*model.* died {reason}", limit_s=WAIT_LIMIT_S)
        assert server.exit_status() == 1
    assert server.log.endswith("giving up")
