"""`talkahead accept` through its real command and a real server, on random weights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from public_folders import write_codec, write_llasa, write_neutts, write_orpheus

from instruments.recording import Recording

# SNAC's library scripts a function with torch.jit when it is imported.
pytestmark = [pytest.mark.patient, pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")]

RATE_HZ = 16_000
TALKERS: dict[str, Callable[[Path], object]] = {
    "llasa": write_llasa,
    "orpheus": write_orpheus,
    "neutts": write_neutts,
}
VOICES = {"llasa": "default", "orpheus": "tara", "neutts": "accepted"}
"""In which sentences are said: of NeuTTS, which has none of its own, that of the recording."""


@pytest.mark.parametrize("family", TALKERS)
def test_one_command_imports_compares_and_speaks(tmp_path: Path, family: str) -> None:
    TALKERS[family](tmp_path / "talker")
    write_codec(family, tmp_path / "codec")
    command = [sys.executable, "-m", "talkahead", "accept", "talker", "codec", "--tokens", "30"]
    command += ["--sentences", "2", "--streams", "1", "2", "--max-seconds", "2"]
    if family == "neutts":
        # Two seconds that are no speech: of random weights nobody can tell.
        noise = np.random.default_rng(0).uniform(-0.2, 0.2, 2 * RATE_HZ).astype(np.float32)
        Recording(noise, RATE_HZ).write(tmp_path / "me.wav")
        command += ["--recording", "me.wav", "--text", "Good morning."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "accepted" / "accept.json").read_text())
    assert found["accepted"] and found["family"] == family and found["problems"] == []
    assert found["greedy"]["same"] == found["greedy"]["tokens"] == 30
    assert found["sentences"]["said"] == 2 and found["sentences"]["voice"] == VOICES[family]
    assert [one["streams"] for one in found["streams"]] == [1, 2]
    assert all(one["real_time_factor"] > 0 and one["first_chunk_ms"] > 0 for one in found["streams"])
    assert found["paragraph"] in done.stdout
    assert sorted(path.name for path in (tmp_path / "accepted").glob("*.wav")) == ["00.wav", "01.wav"]
