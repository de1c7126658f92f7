"""What drafting ahead brings: `talkahead speak` and `talkahead-say --speed-up` on a real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from served import Served
from talkahead_client import Stats
from talkahead_client.speed_up import SpeedUp
from texts import SENTENCES

LIMIT_S = 180.0
PINNED = ("--drafter", "heads", "--pin-draft", "true")


def run(*command: str) -> list[str]:
    """The lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_command_speaks_and_says_what_drafting_brought(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    options = ("--out", str(path), "--exit-timeout", "1", *PINNED)
    spoken, compared = run("talkahead", "speak", *options, SENTENCES[0])
    with wave.open(str(path)) as file:
        seconds = file.getnframes() / file.getframerate()
    assert f"audio {seconds:.2f} s" in spoken and spoken.endswith(f"-> {path}")
    line = re.fullmatch(
        r"heads\+match: (\d+\.\d\d) tokens a step, (\d+\.\d\d)x plain decoding \(same tokens\)", compared
    )
    assert line is not None, compared
    # With its seed and a draft of a fixed size, the text takes the same steps every time.
    assert f"{line[1]} tokens a step" in spoken and float(line[1]) > 1.0
    assert float(line[2]) > 0.0


@pytest.mark.parametrize(
    "options", [PINNED, ("--verifier", "tolerance", "--tolerance", "2", "--pin-draft", "true")]
)
def test_it_fits_what_the_server_counts(options: tuple[str, ...], server: Served, tmp_path: Path) -> None:
    lines = run("talkahead_client.say", "--server", server.grpc, "--json", "--speed-up", "--seed", "5",
                "-o", str(tmp_path / "out.wav"), *options, SENTENCES[1])  # fmt: skip
    spoken, compared = (json.loads(line) for line in lines)
    stats, speed_up = Stats(**spoken["stats"]), SpeedUp(**compared["speed_up"])
    assert (speed_up.pair, speed_up.is_draft, speed_up.is_default) == (stats.pair, True, False)
    assert stats.decode_us / 1e6 < spoken["total_ms"] / 1e3
    assert speed_up.tokens_per_step == pytest.approx(stats.tokens_per_step)
    assert speed_up.is_same_speech or stats.pair != "heads+match"
    assert 0 < speed_up.ms_per_token < 1e3 * spoken["audio_s"]


def test_plain_decoding_is_compared_with_nothing(server: Served, tmp_path: Path) -> None:
    spoken, compared = run("talkahead_client.say", "--server", server.grpc, "--speed-up",
                           "-o", str(tmp_path / "out.wav"), "--drafter", "none", SENTENCES[2])  # fmt: skip
    assert "tokens a step" not in spoken
    assert re.fullmatch(
        r"none\+match: plain decoding, \d+\.\d\d ms a token; nothing was drafted ahead", compared
    )


def test_the_default_is_said_in_one_line(server: Served, tmp_path: Path) -> None:
    lines = run(
        "talkahead_client.say",
        "--server",
        server.grpc,
        "--speed-up",
        "-o",
        str(tmp_path / "out.wav"),
        SENTENCES[0],
    )
    assert len(lines) == 2
    assert re.fullmatch(r"\w+\+\w+(, the server's default: plain .*|: .*x plain decoding .*)", lines[1])
