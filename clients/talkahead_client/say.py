"""`talkahead-say`: text in, speech out, figures at the end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import grpc
import numpy as np

from talkahead_client.captions import FORMATS, Captions
from talkahead_client.client import DEFAULT_SERVER, Client, Speech
from talkahead_client.errors import InvalidRequest, SpeechError
from talkahead_client.figures import Figures, Listener
from talkahead_client.patience import DEFAULT_CHUNK_DEADLINE_S
from talkahead_client.pcm import RawPipe, Sink, WavFile
from talkahead_client.protocol import PARAMETERS, Stats
from talkahead_client.reference import Reference
from talkahead_client.speed_up import Parameters, Spoken, measure_speed_up
from talkahead_client.tls import tls_credentials

USAGE_ERROR = 2
EXIT_CODES = {
    "INVALID_ARGUMENT": USAGE_ERROR,
    "UNAVAILABLE": 3,
    "RESOURCE_EXHAUSTED": 3,
    "DEADLINE_EXCEEDED": 4,
    "CANCELLED": 5,
}
FAILURE = 1
INTERRUPTED = 130
TERMINATED = 143
PIPE_CLOSED = 141

EPILOG = f"""\
exit codes: 0 spoken; {FAILURE} the server failed or the stream broke; {USAGE_ERROR} the request was refused;
3 no server, or a full one; 4 a deadline passed; 5 cancelled by the server; {INTERRUPTED} interrupted;
{PIPE_CLOSED} the player went away.
example: talkahead-say -o - "Hello." | aplay -q -t raw -f S16_LE -c 1 -r $(talkahead-say --rate)
"""


@dataclass(frozen=True)
class Job:
    """One utterance of this command."""

    text: str
    output: Path | None
    """None = raw samples to standard output."""
    captions: Path | None = None


class Progress:
    """One line on a terminal, rewritten as audio arrives."""

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._lock = threading.Lock()
        self._audio_s: dict[int, float] = {}

    def show(self, job: int, audio_s: float) -> None:
        if not self._is_shown:
            return
        with self._lock:
            self._audio_s[job] = audio_s
            lines = f"{len(self._audio_s)} lines, " if len(self._audio_s) > 1 else ""
            sys.stderr.write(f"\r{lines}{sum(self._audio_s.values()):.2f} s of audio ")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Command:
    """One run of the command line."""

    def __init__(self, client: Client, options: argparse.Namespace) -> None:
        self._client = client
        self._options = options
        self._reference = _reference(client, options)
        self._parameters = _parameters(options)
        self._progress = Progress(options.progress or sys.stderr.isatty())
        # Standard output belongs to the samples where they go there.
        self._report = sys.stderr if options.output == "-" else sys.stdout

    def run(self, jobs: Sequence[Job]) -> int:
        """Speaks all jobs and reports each as it ends; returns the exit code of the first failure, or 0."""
        if len(jobs) == 1:
            return self._attempt(0, jobs[0])
        pool = ThreadPoolExecutor(self._options.jobs)
        try:
            codes = list(pool.map(self._attempt, range(len(jobs)), jobs))
        except BaseException:
            # The workers sit in streams; ending those is what lets the pool end.
            self._client.close()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return next((code for code in codes if code), 0)

    def _attempt(self, number: int, job: Job) -> int:
        try:
            figures, stats = self._speak(number, job)
        except SpeechError as error:
            self._progress.clear()
            self._print_error(job, error)
            return EXIT_CODES.get(error.code, FAILURE)
        self._progress.clear()
        self._print_figures(job, figures, stats)
        if self._options.speed_up:
            return self._compare(job, stats)
        return 0

    def _compare(self, job: Job, stats: Stats) -> int:
        """Prints what drafting ahead brings to this text, which has been spoken."""
        try:
            speed_up = measure_speed_up(
                lambda parameters: self._speak_again(job.text, parameters), self._parameters, stats
            )
        except SpeechError as error:
            self._print_error(job, error)
            return EXIT_CODES.get(error.code, FAILURE)
        line = json.dumps({"speed_up": asdict(speed_up)}) if self._options.json else str(speed_up)
        print(line, file=self._report, flush=True)
        return 0

    def _speak_again(self, text: str, parameters: Parameters) -> Spoken:
        with self._stream(text, parameters) as speech:
            chunks = list(speech)
        return Spoken(np.concatenate([chunk.audio for chunk in chunks]), chunks[-1].stats)

    def _stream(self, text: str, parameters: Mapping[str, Any]) -> Speech:
        return self._client.speak(
            text,
            voice=self._options.voice,
            reference=self._reference,
            deadline_s=self._options.deadline,
            chunk_deadline_s=self._options.chunk_deadline,
            retries=self._options.retries,
            **parameters,
        )

    def _speak(self, number: int, job: Job) -> tuple[Figures, Stats]:
        """Its figures, and the server's totals."""
        listener, captions = Listener(), Captions(job.text)
        stats: Stats | None = None
        with contextlib.closing(_sink(job)) as sink, self._stream(job.text, self._parameters) as speech:
            for chunk in speech:
                listener.hear(chunk)
                stats = chunk.stats
                sink.write(chunk)
                captions.add(chunk)
                self._progress.show(number, listener.audio_s)
        assert stats is not None, "an utterance that ends has a chunk"
        if job.captions is not None:
            captions.write(job.captions)
        return listener.figures(), stats

    def _print_figures(self, job: Job, figures: Figures, stats: Stats) -> None:
        where = str(job.output or "standard output")
        if self._options.json:
            spoken = {"output": where, "text": job.text, **asdict(figures), "stats": asdict(stats)}
            line = json.dumps(spoken)
        else:
            steps = f", {stats.tokens_per_step:.2f} tokens a step" if stats.drafted else ""
            line = f"{figures}{steps} -> {where}"
        print(line, file=self._report, flush=True)

    def _print_error(self, job: Job, error: SpeechError) -> None:
        line = f" ({job.output})" if self._options.jobs else ""
        print(f"talkahead-say: {error.code}: {error}{line}", file=sys.stderr, flush=True)
        if self._options.json:
            failure = {"text": job.text, "error": str(error), "code": error.code}
            print(json.dumps(failure), file=self._report, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        with _unwinding(), Client(options.server, _credentials(options)) as client:
            if options.voices:
                print("\n".join(client.voices()))
                return 0
            if options.rate:
                print(client.sample_rate_hz())
                return 0
            return Command(client, options).run(_jobs(options))
    except _Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more at exit and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (SpeechError, OSError) as error:
        print(f"talkahead-say: {error}", file=sys.stderr)
        return EXIT_CODES.get(getattr(error, "code", ""), FAILURE)


def _credentials(options: argparse.Namespace) -> grpc.ChannelCredentials | None:
    files = (options.tls_ca, options.tls_certificate, options.tls_key)
    if not options.tls and files == (None, None, None):
        return None
    try:
        return tls_credentials(*files)
    except ValueError as error:
        raise InvalidRequest(f"--tls-certificate, --tls-key: {error}") from error


class _Terminated(BaseException):
    """SIGTERM came; the streams still have to be cancelled."""


@contextlib.contextmanager
def _unwinding() -> Iterator[None]:
    """Within, SIGINT and SIGTERM cancel the streams; off the main thread no handler can be set.

    Python leaves SIGINT ignored where it finds it so, as in a job that a shell put into the background.
    """

    def unwind(number: int, frame: FrameType | None) -> NoReturn:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: unwind}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="talkahead-say",
        description="Speak a text with a Talkahead server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group()
    source.add_argument("text", nargs="?", help="what to say; without it, and for -, standard input is read")
    source.add_argument("--file", type=Path, help="read the text from this file (UTF-8)")
    source.add_argument("--voices", action="store_true", help="list the server's voices and stop")
    source.add_argument("--rate", action="store_true", help="print the rate of its speech in Hz and stop")
    add("-o", "--output", default="out.wav", help="WAV file, or - for raw 16-bit mono PCM (%(default)s)")
    add("--captions", type=Path, metavar="FILE",
        help="also write when which words are spoken, as FILE.vtt (WebVTT) or FILE.srt (SubRip)")  # fmt: skip
    add("--server", default=DEFAULT_SERVER, help="gRPC address (%(default)s)")
    add("--voice", help="one of --voices; default: the server's first")
    add("--reference", type=Path, metavar="WAV",
        help="speak like this recording of some seconds: mono, 16 bits, at the server's --rate; not together "
        "with --voice")  # fmt: skip
    add("--reference-text", metavar="TEXT", help="what is said in --reference")
    add("--jobs", type=_count, metavar="N", help="speak each line by itself, N at a time: out-0001.wav, ...")
    add("--json", action="store_true", help="figures as JSON, one line for each utterance")
    add("--speed-up", action="store_true",
        help="afterwards, speak a few seconds of it again, with and without drafting ahead, and say how the "
        "talker's speed compares; not together with --jobs")  # fmt: skip
    add("--progress", action="store_true", help="show progress even where stderr is no terminal")
    add("--deadline", type=_seconds, metavar="S", help="for a whole utterance")
    add("--chunk-deadline", type=_seconds, metavar="S", default=DEFAULT_CHUNK_DEADLINE_S,
        help="for the first chunk, and from each to the next (%(default)g)")  # fmt: skip
    add("--retries", type=_count, metavar="N", default=0,
        help="ask again where the server is away, or goes away before the first chunk")  # fmt: skip
    tls = parser.add_argument_group("TLS")
    tls.add_argument("--tls", action="store_true", help="the server has TLS, as any of the files says")
    for name, about in (
        ("ca", "who has signed the server's certificate (default: whom gRPC trusts)"),
        ("certificate", "this client's own, where the server asks for one"),
        ("key", "its key"),
    ):
        tls.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=about)
    group = parser.add_argument_group("request parameters", "which of them a server takes, it says itself")
    for name, kind in PARAMETERS.items():
        kind_name, read = (kind.__name__.upper(), _boolean if kind is bool else kind)
        group.add_argument(f"--{name.replace('_', '-')}", type=read, metavar=kind_name)
    return parser


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in PARAMETERS}
    return {name: value for name, value in given.items() if value is not None}


def _reference(client: Client, options: argparse.Namespace) -> Reference | None:
    if (options.reference is None) != (options.reference_text is None):
        raise InvalidRequest("--reference, --reference-text: a recording and what is said in it go together")
    if options.reference is None:
        return None
    return Reference.from_wav(options.reference, options.reference_text, client.sample_rate_hz())


def _jobs(options: argparse.Namespace) -> list[Job]:
    text, captions = _text(options), options.captions
    if captions is not None and captions.suffix not in FORMATS:
        raise InvalidRequest(f"--captions: {captions}: allowed: a name that ends in {' or '.join(FORMATS)}")
    if options.jobs is None:
        return [Job(text, None if options.output == "-" else Path(options.output), captions)]
    if options.speed_up:
        raise InvalidRequest("--speed-up: compares one utterance alone on the server; leave --jobs out")
    if options.output == "-":
        raise InvalidRequest("--jobs: several lines cannot share standard output; give -o a file name")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InvalidRequest("--jobs: the text has no line to speak")
    return [
        Job(line, _numbered(Path(options.output), number), captions and _numbered(captions, number))
        for number, line in enumerate(lines, 1)
    ]


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:04d}{path.suffix}")


def _text(options: argparse.Namespace) -> str:
    if options.file is None and options.text not in (None, "-"):
        return str(options.text)
    content = options.file.read_bytes() if options.file is not None else sys.stdin.buffer.read()
    try:
        return str(content.decode("utf-8")).strip()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{options.file or 'standard input'}: not UTF-8: {error}") from error


def _sink(job: Job) -> Sink:
    return RawPipe(sys.stdout.buffer) if job.output is None else WavFile(job.output)


def _count(argument: str) -> int:
    count = int(argument)
    if count < 1:
        raise ValueError(argument)
    return count


def _seconds(argument: str) -> float:
    seconds = float(argument)
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise ValueError(argument)
    return seconds


def _boolean(argument: str) -> bool:
    if argument not in ("true", "false"):
        raise ValueError(argument)
    return argument == "true"


# argparse names these in its messages.
_count.__name__, _seconds.__name__, _boolean.__name__ = "count", "seconds", "true or false"


if __name__ == "__main__":
    sys.exit(main())
