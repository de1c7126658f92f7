"""`talkahead accept` through its real command and a real server, on random weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from public_folders import write_codec, write_llasa


def test_one_command_imports_compares_and_speaks(tmp_path: Path) -> None:
    write_llasa(tmp_path / "talker")
    write_codec("llasa", tmp_path / "codec")
    command = [sys.executable, "-m", "talkahead", "accept", "talker", "codec", "--tokens", "30"]
    command += ["--sentences", "2", "--streams", "1", "2", "--max-seconds", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "accepted" / "accept.json").read_text())
    assert found["accepted"] and found["family"] == "llasa" and found["problems"] == []
    assert found["greedy"]["same"] == found["greedy"]["tokens"] == 30
    assert found["sentences"]["said"] == 2 and found["sentences"]["voice"] == "default"
    assert [one["streams"] for one in found["streams"]] == [1, 2]
    assert all(one["real_time_factor"] > 0 and one["first_chunk_ms"] > 0 for one in found["streams"])
    assert found["paragraph"] in done.stdout
    assert sorted(path.name for path in (tmp_path / "accepted").glob("*.wav")) == ["00.wav", "01.wav"]
