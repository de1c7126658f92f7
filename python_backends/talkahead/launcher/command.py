"""`talkahead`: serve, speak, gateway, doctor, voices, drafts, accept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from talkahead.config import SETTINGS
from talkahead.errors import Code, TalkaheadError
from talkahead.launcher import accept_command, drafts_command, gateway_command, voices_command
from talkahead.launcher.addresses import Addresses
from talkahead.launcher.installation import SOURCE_ROOT
from talkahead.launcher.log_line import LogFormat, LogLevel, LogLine
from talkahead.launcher.model_control import ModelControl
from talkahead.launcher.plain_names import is_plain
from talkahead.launcher.server_process import ServeOptions
from talkahead.launcher.speak import DRAFTING, PARAMETERS, option, speak
from talkahead.launcher.supervisor import Supervisor, announce, show
from talkahead.launcher.tls import Tls
from talkahead.launcher.traces import Traces

USAGE_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        # The gateway reads its own options, of which nothing is known where it is not installed.
        if given[:1] == [gateway_command.NAME]:
            return gateway_command.run(given[1:])
        if given[:1] == [accept_command.NAME]:
            return accept_command.run(given[1:])
        options = make_parser().parse_args(given)
        status: int = options.run(options)
    except TalkaheadError as error:
        show(LogLine(str(error), LogLevel.ERROR))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def serve_options(options: argparse.Namespace) -> ServeOptions:
    """Raises TalkaheadError when the repository holds no models."""
    gateway = _gateway(options)
    tls = _tls(options)
    ports = (options.grpc_port, options.http_port, options.metrics_port)
    serve = ServeOptions(
        repository=options.repository.resolve(),
        addresses=Addresses.choose(options.host, *ports, has_tls=tls is not None),
        tls=tls,
        config_name=options.model_config_name,
        model_control=_model_control(options),
        traces=_traces(options),
        log_level=LogLevel[options.log_level.upper()],
        threads=dict(options.threads),
        start_timeout_s=options.start_timeout,
        drain_delay_s=options.drain_delay,
        drain_timeout_s=options.drain_timeout,
        exit_timeout_s=options.exit_timeout,
        restarts=options.restarts,
        check_interval_s=options.check_interval,
        binary=options.tritonserver,
        gateway=gateway,
    )
    if not serve.models:
        raise TalkaheadError(f"--repository {serve.repository} holds no model (no */config.pbtxt)")
    for model in serve.models:
        if not is_plain(Path(model)):
            raise TalkaheadError(
                f"--repository {serve.repository}: Triton cannot start a model named {model!r}; give it "
                "a name of ASCII letters, digits and _.+- alone"
            )
    if serve.config_name is not None and serve.config_name not in serve.config_names:
        raise TalkaheadError(
            f"--model-config-name {serve.config_name}: no model of {serve.repository} has "
            f"configs/{serve.config_name}.pbtxt; allowed: {', '.join(serve.config_names) or 'none here'}"
        )
    unknown = sorted(set(serve.threads) - set(serve.models))
    if unknown:
        raise TalkaheadError(f"--threads {unknown[0]}: the repository has {', '.join(serve.models)}")
    return serve


def _tls(options: argparse.Namespace) -> Tls | None:
    """Only `serve` has these options. Raises TalkaheadError where one of them lacks another."""
    certificate, key, client_ca = (
        getattr(options, name, None) for name in ("tls_certificate", "tls_key", "tls_client_ca")
    )
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        given = "--tls-client-ca" if certificate is key else "--tls-key" if key else "--tls-certificate"
        raise TalkaheadError(f"{given} needs both --tls-certificate and --tls-key", Code.INVALID_ARGUMENT)
    return Tls(certificate, key, client_ca)


def _gateway(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Only `serve` has the option. Raises TalkaheadError where it cannot be had."""
    arguments: list[str] | None = getattr(options, "gateway", None)
    if arguments is None:
        return None
    if options.tls_certificate is not None:
        raise TalkaheadError("--gateway: it speaks plain text to its server, which --tls-certificate forbids")
    if any(argument.partition("=")[0] == "--server" for argument in arguments):
        raise TalkaheadError("--gateway: its --server is the one that is started here; leave it out")
    gateway_command.check(arguments, prog="talkahead serve --gateway")
    return tuple(arguments)


def _model_control(options: argparse.Namespace) -> ModelControl | None:
    """Only `serve` has the option."""
    path: Path | None = getattr(options, "model_control", None)
    return None if path is None else ModelControl.read_or_made(path)


def _traces(options: argparse.Namespace) -> Traces | None:
    """Only `serve` has the options."""
    url: str | None = getattr(options, "traces", None)
    return None if url is None else Traces(url, options.trace_every)


def _serve(options: argparse.Namespace) -> int:
    return Supervisor(serve_options(options), partial(show, form=options.log_format), announce).run()


def _speak(options: argparse.Namespace) -> int:
    given = {name: value for name in PARAMETERS if (value := getattr(options, name)) is not None}
    return speak(serve_options(options), options.text, options.out, options.voice, given)


def _doctor(options: argparse.Namespace) -> int:
    from talkahead.launcher.doctor import examine

    return examine(options.repository.resolve(), (options.grpc_port, options.http_port, options.metrics_port))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="talkahead", description="Streaming text-to-speech on NVIDIA Triton.", allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = _add(commands, "serve", "start the server and keep it running until SIGTERM or Ctrl-C", _serve)
    tls = serve.add_argument_group(
        "TLS", "of gRPC; HTTP, for which Triton has none, listens on this machine alone then"
    )
    for name, about in (
        ("certificate", "the server's, in PEM, with those that lead to its root"),
        ("key", "its key, in PEM, without a password"),
        ("client-ca", "take clients alone whose certificates these have signed, in PEM"),
    ):
        tls.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=about)
    serve.add_argument(
        "--log-format",
        type=LogFormat,
        choices=list(LogFormat),
        default=LogFormat.TEXT,
        help="json: a line of JSON for each line of the log, with the request's id where it is about one; "
        "--log-level info has a line for each stream (default: %(default)s)",
    )
    serve.add_argument(
        "--traces",
        metavar="URL",
        help="send OpenTelemetry traces to this collector, in OTLP over HTTP: http://HOST:4318/v1/traces",
    )
    serve.add_argument(
        "--trace-every",
        type=_count,
        default=1,
        metavar="N",
        help="of one request in N; 0: of those alone whose client sends a traceparent (default: %(default)s)",
    )
    serve.add_argument(
        "--model-control",
        type=Path,
        metavar="FILE",
        help="open Triton's model control, with which `python -m build_engines switch` changes a model's "
        "engine, to those who know the key in FILE, which is made if it is not there; with the key, code can "
        "be run as the server's user (default: closed)",
    )
    serve.add_argument(
        "--gateway",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="start the gateway as well, and stop it with the server; what follows are its options "
        "(`talkahead gateway --help`), as in `talkahead serve --gateway --port 8080`",
    )
    serve.epilog = (
        "Prints one line on standard output when every model is ready: 'ready grpc HOST:PORT http HOST:PORT "
        "metrics HOST:PORT', and with --gateway another one when that answers, too. Everything else goes to "
        "standard error. The first signal drains: new streams are refused, open ones finish; the second "
        "stops now."
    )
    speak = _add(commands, "speak", "start a server, speak one text into a wav file, stop the server", _speak)
    speak.add_argument("text", help="what to say")
    speak.add_argument(
        "--out", type=Path, default=Path("out.wav"), help="wav file to write (default: %(default)s)"
    )
    speak.add_argument("--voice", help="a voice of the server (default: its first)")
    speak.add_argument("--speed", help=SETTINGS["speed"].allowed)
    speak.epilog = (
        "Then speaks a few seconds of it again, with and without drafting ahead, and prints how the talker's "
        "speed compares."
    )
    drafting = speak.add_argument_group("drafting ahead", "default: as the server does by itself")
    for name in DRAFTING:
        drafting.add_argument(option(name), metavar=name.upper(), help=SETTINGS[name].allowed)
    for other in (gateway_command, accept_command):
        commands.add_parser(other.NAME, help=other.ABOUT, add_help=False)
    _add(commands, "doctor", "say what is missing on this machine and how to get it", _doctor)
    voices = commands.add_parser(
        "voices", help="voices by example, stored in a repository", allow_abbrev=False
    )
    verbs = voices.add_subparsers(required=True, metavar="COMMAND")
    for verb, about, run, add_arguments in (
        ("add", "store a recording as a voice", voices_command.add, voices_command.add_arguments),
        ("list", "name the voices of a repository", voices_command.show, lambda parser: None),
        (
            *("remove", "forget a voice that was added"),
            *(voices_command.remove, voices_command.add_remove_arguments),
        ),
    ):
        described = _described(verbs, verb, about, run)
        _add_repository(described)
        add_arguments(described)
    drafts = commands.add_parser("drafts", help="make what a talker drafts ahead with", allow_abbrev=False)
    stages = drafts.add_subparsers(required=True, metavar="COMMAND")
    about = "let a talker speak by itself, train draft heads on that, and measure what they bring"
    train = _described(stages, "train", about, drafts_command.run)
    _add_repository(train)
    drafts_command.add_arguments(train, _above_zero)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, run: object
) -> argparse.ArgumentParser:
    command = _described(commands, name, about, run)
    _add_server_options(command.add_argument_group("server"))
    return command


def _described(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, run: object
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False
    )
    command.set_defaults(run=run)
    return command


def _add_repository(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--repository",
        type=Path,
        default=_default_repository(),
        help="model repository (default: %(default)s)",
    )


def _add_server_options(group: argparse._ArgumentGroup) -> None:
    default = ServeOptions(Path(), Addresses("127.0.0.1", 0, 0, 0))
    _add_repository(group)
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    for name in ("grpc", "http", "metrics"):
        group.add_argument(
            f"--{name}-port", type=_port, default=0, metavar="PORT", help="(default: a free one)"
        )
    group.add_argument(
        "--model-config-name", metavar="NAME", help="use configs/NAME.pbtxt of every model that has it"
    )
    group.add_argument(
        "--deterministic",
        dest="model_config_name",
        action="store_const",
        const="deterministic",
        help="the same bits of audio for the same request, whatever the load: no batching but the "
        "talker's, whose rows never touch (the same as --model-config-name deterministic)",
    )
    group.add_argument(
        "--threads",
        type=_thread_count,
        action="append",
        default=[],
        metavar="MODEL=N",
        help="threads of one model's process, instead of its config.pbtxt's; repeatable (frontend, control "
        "and a vocoder with the native engine compute on one, whatever is said here)",
    )
    group.add_argument(
        "--log-level",
        choices=[level.name.lower() for level in LogLevel],
        default=default.log_level.name.lower(),
        help="of the server's own log (default: %(default)s)",
    )
    group.add_argument(
        "--start-timeout",
        type=_seconds,
        default=default.start_timeout_s,
        metavar="S",
        help="give up when the models are not ready by then (default: %(default)s)",
    )
    group.add_argument(
        "--drain-delay",
        type=_seconds,
        default=default.drain_delay_s,
        metavar="S",
        help="how long new streams are still taken after a signal, while health checks are refused already; "
        "behind a proxy, what that needs to notice (default: %(default)s)",
    )
    group.add_argument(
        "--drain-timeout",
        type=_seconds,
        default=default.drain_timeout_s,
        metavar="S",
        help="how long open streams may go on after a signal (default: %(default)s)",
    )
    group.add_argument(
        "--exit-timeout",
        type=_count,
        default=default.exit_timeout_s,
        metavar="S",
        help="Triton's own wait for requests in flight, after that (default: %(default)s)",
    )
    group.add_argument(
        "--restarts",
        type=_count,
        default=default.restarts,
        metavar="N",
        help="restart the server at most N times when a model's process dies or it does not speak any more "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--check-interval",
        type=_seconds,
        default=default.check_interval_s,
        metavar="S",
        help="speak a syllable this often to see whether the server still speaks; 0: only after an error in "
        "its log (default: %(default)s)",
    )
    group.add_argument(
        "--tritonserver",
        type=Path,
        metavar="PATH",
        help="a tritonserver with its own backends (default: the wheel's, else the one on the PATH)",
    )


def _default_repository() -> Path:
    """The checkout's, when the package runs from one; else the working directory's."""
    checkout = SOURCE_ROOT.parent / "model_repository"
    return checkout if checkout.is_dir() else Path("model_repository")


def _port(text: str) -> int:
    return _whole(text, 0, 65_535)


def _count(text: str) -> int:
    return _whole(text, 0, 1_000_000)


def _whole(text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _above_zero(text: str) -> float:
    if not (value := _seconds(text)):
        raise argparse.ArgumentTypeError("0 is too little")
    return value


def _thread_count(text: str) -> tuple[str, int]:
    model, _, count = text.partition("=")
    if not model or not count.isdecimal() or not 1 <= int(count) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODEL=N, with N from 1 to 1024")
    return model, int(count)
