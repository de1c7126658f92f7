"""The command line, in this process where that is enough and in one of its own for signals and pipes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from fake_triton import RATE_HZ, SAMPLES, FakeStream, FakeTriton, chunk, speaks, stalls
from talkahead_client.protocol import STATS_FIELDS
from talkahead_client.say import main


def _say(triton: FakeTriton, *arguments: str) -> int:
    return main(["--server", triton.address, *arguments])


def _samples(path: Path) -> np.ndarray:  # type: ignore[type-arg]
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE_HZ)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_writes_a_wav_file_and_one_line(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hello.wav"
    parameters = ("--temperature", "0.5", "--pin-draft", "false")
    assert _say(triton, "Hello.", "-o", str(path), "--voice", "rms", *parameters) == 0
    assert len(_samples(path)) == 3 * SAMPLES and _samples(path)[0] == 3277
    out, err = capsys.readouterr()
    assert err == "" and out.count("\n") == 1
    assert "first chunk" in out and "audio 0.06 s" in out and out.endswith(f"3 chunks -> {path}\n")
    request = triton.streams[0].request
    assert triton.streams[0].text == "Hello." and request.raw_input_contents[1][4:] == b"rms"
    assert set(request.parameters) == {"triton_enable_empty_final_response", "temperature", "pin_draft"}


def test_speaks_like_a_recording(triton: FakeTriton, tmp_path: Path) -> None:
    recording = _recording(tmp_path / "voice.wav")
    said = ("--reference", str(recording), "--reference-text", "Hm.")
    assert _say(triton, "Hello.", "-o", str(tmp_path / "hello.wav"), *said) == 0
    request = triton.streams[0].request
    sent = dict(zip((tensor.name for tensor in request.inputs), request.raw_input_contents, strict=True))
    assert set(sent) == {"TEXT", "REFERENCE_AUDIO", "REFERENCE_TEXT"} and sent["REFERENCE_TEXT"][4:] == b"Hm."
    assert np.frombuffer(sent["REFERENCE_AUDIO"], np.float32).tolist() == [-1.0, 0.0, 0.5]


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ((1, 2, 22_050), "1 channels, 16 bits, 22,050 Hz; allowed: mono, 16 bits, 24,000 Hz"),
        ((2, 2, RATE_HZ), "2 channels, 16 bits, 24,000 Hz"),
        ((1, 4, RATE_HZ), "1 channels, 32 bits, 24,000 Hz"),
    ],
)
def test_a_recording_in_another_form_is_refused(
    triton: FakeTriton,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: tuple[int, int, int],
    sentence: str,
) -> None:
    recording = _recording(tmp_path / "voice.wav", form)
    assert _say(triton, "Hello.", "--reference", str(recording), "--reference-text", "Hm.") == 2
    assert sentence in capsys.readouterr().err and triton.streams == []


def test_a_recording_and_its_words_go_together(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, noise = _recording(tmp_path / "voice.wav"), tmp_path / "noise.wav"
    noise.write_bytes(b"no WAV file")
    for status, arguments in (
        (2, ["--reference", str(recording)]),
        (2, ["--reference-text", "Hm."]),
        (2, ["--reference", str(noise), "--reference-text", "Hm."]),
        (1, ["--reference", str(tmp_path / "missing.wav"), "--reference-text", "Hm."]),
    ):
        assert _say(triton, "Hello.", *arguments) == status
    assert "go together" in capsys.readouterr().err and triton.streams == []


def _recording(path: Path, form: tuple[int, int, int] = (1, 2, RATE_HZ)) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(form[0])
        file.setsampwidth(form[1])
        file.setframerate(form[2])
        file.writeframes(np.array([-32_768, 0, 16_384], "<i2").tobytes())
    return path


def test_json(triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _say(triton, "Hello.", "-o", str(tmp_path / "a.wav"), "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures["stats"]) == set(STATS_FIELDS)
    assert figures["text"] == "Hello." and figures["chunks"] == 3
    assert {"first_chunk_ms", "first_audible_ms", "total_ms", "audio_s", "real_time_factor"} <= set(figures)


def _drafts(stream: FakeStream) -> Iterator[object]:
    """Ten steps for ten tokens of a plain utterance, for fifteen of a drafted one."""
    is_plain = stream.request.parameters["drafter"].string_param == "none"
    yield chunk(0)
    drafts = (0, 0, 3_000, 0, 0) if is_plain else (30, 5, 3_000, 1, 0)
    yield chunk(1, is_last=True, is_final=True, drafts=drafts)


def test_says_what_drafting_brings_once_the_file_is_written(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, sizes = tmp_path / "a.wav", []

    def script(stream: FakeStream) -> Iterator[object]:
        if len(triton.streams) > 1:
            sizes.append(len(_samples(path)))
        return _drafts(stream)

    triton.script = script
    assert _say(triton, "Hello.", "-o", str(path), "--speed-up", "--verifier", "match") == 0
    spoken, compared = capsys.readouterr().out.splitlines()
    assert spoken.endswith(f"-> {path}")
    assert compared == "heads+match: 1.50 tokens a step, 1.50x plain decoding (same tokens)"
    assert sizes == [2 * SAMPLES] * 6


def test_json_of_what_drafting_brings(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.script = _drafts
    assert _say(triton, "Hello.", "-o", str(tmp_path / "a.wav"), "--speed-up", "--json") == 0
    compared = json.loads(capsys.readouterr().out.splitlines()[1])["speed_up"]
    assert compared["pair"] == "heads+match" and compared["times_plain"] == pytest.approx(1.5)


def test_a_server_that_stops_speaking_fails_the_comparison(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(stream: FakeStream) -> Iterator[object]:
        if len(triton.streams) > 2:
            stream.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return _drafts(stream)

    triton.script = script
    assert _say(triton, "Hello.", "-o", str(tmp_path / "a.wav"), "--speed-up") == 3
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and err == "talkahead-say: RESOURCE_EXHAUSTED: full\n"


def test_raw_samples_to_standard_output(triton: FakeTriton) -> None:
    done = _run(triton, "-", "-o", "-", "--json", input_text="From a pipe.\n")
    assert done.returncode == 0 and len(done.stdout) == 2 * 3 * SAMPLES
    assert json.loads(done.stderr)["output"] == "standard output"
    assert triton.streams[0].text == "From a pipe."


def test_a_file_of_lines_in_parallel(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.script = lambda stream: speaks(len(stream.text))(stream)
    text = tmp_path / "lines.txt"
    text.write_text("a\n\nbb\n  ccc  \n")
    assert _say(triton, "--file", str(text), "--jobs", "2", "-o", str(tmp_path / "o.wav"), "--progress") == 0
    assert [len(_samples(tmp_path / f"o-000{number}.wav")) // SAMPLES for number in (1, 2, 3)] == [1, 2, 3]
    out, err = capsys.readouterr()
    assert out.count("\n") == 3 and "s of audio" in err


def test_voices(triton: FakeTriton, capsys: pytest.CaptureFixture[str]) -> None:
    assert _say(triton, "--voices") == 0
    assert capsys.readouterr().out == "slt\nrms\n"


def test_rate(triton: FakeTriton, capsys: pytest.CaptureFixture[str]) -> None:
    assert _say(triton, "--rate") == 0
    assert capsys.readouterr().out == "24000\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
        (grpc.StatusCode.UNAVAILABLE, 3),
        (grpc.StatusCode.CANCELLED, 5),
        (grpc.StatusCode.INTERNAL, 1),
    ],
)
def test_errors_have_exit_codes(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str], code: grpc.StatusCode, status: int
) -> None:
    triton.script = lambda stream: stream.fail(code, "because") or iter(())
    assert _say(triton, "Hello.", "-o", str(tmp_path / "none.wav"), "--json") == status
    out, err = capsys.readouterr()
    assert err == f"talkahead-say: {code.name}: because\n"
    assert json.loads(out)["code"] == code.name
    assert not (tmp_path / "none.wav").exists()


def test_a_failed_line_does_not_stop_the_others(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(stream: FakeStream) -> Iterator[object]:
        if stream.text == "bad":
            stream.fail(grpc.StatusCode.INVALID_ARGUMENT, "TEXT")
        yield from speaks(1)(stream)

    triton.script = script
    lines = tmp_path / "lines.txt"
    lines.write_text("good\nbad\ngood\n")
    assert _say(triton, "--file", str(lines), "--jobs", "1", "-o", str(tmp_path / "o.wav")) == 2
    assert capsys.readouterr().out.count("-> ") == 2


def test_a_deadline(triton: FakeTriton, tmp_path: Path) -> None:
    triton.script = stalls(1)
    assert _say(triton, "Hello.", "-o", str(tmp_path / "o.wav"), "--deadline", "0.1") == 4
    assert len(_samples(tmp_path / "o.wav")) == SAMPLES


def test_wrong_usage(triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--jobs", "0"], ["--deadline", "nan"], ["--pin-draft", "maybe"], ["--temp", "1"]):
        with pytest.raises(SystemExit) as caught:
            _say(triton, "Hello.", *arguments)
        assert caught.value.code == 2
    assert _say(triton, "Hello.", "--jobs", "2", "-o", "-") == 2
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert _say(triton, "--file", str(binary)) == 2
    assert "not UTF-8" in capsys.readouterr().err
    assert _say(triton, "--file", str(tmp_path / "missing")) == 1
    assert _say(triton, "Hello.", "-o", str(tmp_path / "no" / "folder.wav")) == 1
    assert triton.streams[-1].over.wait(1)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_cancel_politely(triton: FakeTriton, tmp_path: Path, number: int, status: int) -> None:
    triton.script = stalls(2)
    with _started(triton, "Hello.", "-o", str(tmp_path / "o.wav")) as command:
        _wait_for_stream(triton)
        command.send_signal(number)
        out, err = command.communicate(timeout=10)
    assert (command.returncode, out, err) == (status, b"", b"")
    assert triton.streams[0].over.wait(1) and not triton.streams[0].is_cut


def test_an_interrupt_is_heeded_in_the_background_too(triton: FakeTriton, tmp_path: Path) -> None:
    """Shells start background jobs with SIGINT ignored."""
    triton.script = stalls(2)
    background = ("env", "--ignore-signal=INT")
    with _started(triton, "Hello.", "-o", str(tmp_path / "o.wav"), prefix=background) as command:
        _wait_for_stream(triton)
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=10) == 130
    assert triton.streams[0].over.wait(1) and not triton.streams[0].is_cut


def test_an_interrupt_ends_all_jobs_politely(triton: FakeTriton, tmp_path: Path) -> None:
    triton.script = stalls(1)
    lines = tmp_path / "lines.txt"
    lines.write_text("a\nb\nc\nd\n")
    arguments = ("--file", str(lines), "--jobs", "2", "-o", str(tmp_path / "o.wav"))
    with _started(triton, *arguments) as command:
        _wait_for_stream(triton, 2)
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=10)
    assert (command.returncode, out, len(triton.streams)) == (130, b"", 2)
    assert all(stream.over.wait(1) and not stream.is_cut for stream in triton.streams)


def test_a_player_that_goes_away_cancels_politely(triton: FakeTriton) -> None:
    def script(stream: FakeStream) -> Iterator[object]:
        for index in range(1000):
            yield chunk(index, samples=20_000)
            if stream.cancelled.wait(0.002):
                return

    triton.script = script
    with _started(triton, "Hello.", "-o", "-") as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.read(1000)
        command.stdout.close()
        assert command.wait(10) == 141
        assert command.stderr.read() == b""
    assert triton.streams[0].cancelled.is_set() and not triton.streams[0].is_cut


def test_progress_needs_no_terminal(
    triton: FakeTriton, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    assert _say(triton, "Hello.", "-o", str(tmp_path / "o.wav"), "--progress") == 0
    assert "\r0.06 s of audio" in screen.getvalue()


@contextmanager
def _started(
    triton: FakeTriton, *arguments: str, prefix: Sequence[str] = (), stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process, which ends and closes its pipes with the block, whatever happens there."""
    command = [*prefix, sys.executable, "-m", "talkahead_client.say", "--server", triton.address, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def _run(triton: FakeTriton, *arguments: str, input_text: str) -> subprocess.CompletedProcess[bytes]:
    with _started(triton, *arguments, stdin=subprocess.PIPE) as command:
        out, err = command.communicate(input_text.encode(), timeout=20)
    return subprocess.CompletedProcess(command.args, command.returncode, out, err)


def _wait_for_stream(triton: FakeTriton, count: int = 1) -> None:
    for _ in range(2000):
        if len(triton.streams) >= count:
            time.sleep(0.1)
            return
        time.sleep(0.005)
    raise AssertionError("the command sent no request")


def test_captions_say_when_words_are_spoken(triton: FakeTriton, tmp_path: Path) -> None:
    def speaks_words(stream: FakeStream) -> Iterator[object]:
        yield chunk(0, words=[(0, 5, 0, 1), (5, 6, SAMPLES // 2, 2)])
        yield chunk(1, is_last=True, is_final=True, words=[(7, 12, SAMPLES // 2, 1)])

    triton.script = speaks_words
    path = tmp_path / "hello.srt"
    assert _say(triton, "Hello, world", "-o", str(tmp_path / "hello.wav"), "--captions", str(path)) == 0
    assert path.read_text() == "1\n00:00:00,000 --> 00:00:00,040\nHello, world\n"


def test_captions_in_a_format_that_nobody_knows_are_refused(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _say(triton, "Hello.", "--captions", str(tmp_path / "out.txt")) == 2
    assert "allowed: a name that ends in .vtt or .srt" in capsys.readouterr().err and not triton.streams
