"""`talkahead-gateway`, or `talkahead gateway`: answers HTTP, and gRPC, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
from talkahead_client.client import DEFAULT_SERVER
from talkahead_client.tls import tls_credentials

from talkahead_gateway.door import Door, DoorOptions
from talkahead_gateway.grpc_server import PortTaken, grpc_server
from talkahead_gateway.http_server import HttpServer
from talkahead_gateway.speech_door import SpeechLimits
from talkahead_gateway.stored_voices import DEFAULT_PER_KEY

USAGE_ERROR = 2

EPILOG = """\
Prints one line on standard output when it answers: 'ready http HOST:PORT', and 'riva HOST:PORT' after it
where that door is open. Everything else goes to standard error. The first signal drains: new requests get
503, open ones finish; the second stops now.
"""


def main(arguments: Sequence[str] | None = None, prog: str = "talkahead-gateway") -> int:
    """Runs the command line and returns its exit status."""
    try:
        options, door_options = read_options(arguments, prog)
        listener = _listen(options.host, options.port)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with listener:
        try:
            asyncio.run(_run(door_options, listener, options))
        except PortTaken as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


def read_options(arguments: Sequence[str] | None, prog: str) -> tuple[argparse.Namespace, DoorOptions]:
    """What the command line says; raises OSError for a file that cannot be read, and ends at wrong usage."""
    parser = _parser(prog)
    options = parser.parse_args(arguments)
    try:
        return options, _door_options(options)
    except ValueError as error:
        parser.error(str(error))


async def _run(door_options: DoorOptions, listener: socket.socket, options: argparse.Namespace) -> None:
    door = Door(door_options)
    message_bytes = door_options.limits.body_bytes
    async with AsyncExitStack() as stack:
        beside: list[str] = []
        if options.riva_port is not None:
            opening = grpc_server(door.riva.handlers(), options.host, options.riva_port, message_bytes)
            beside = ["riva", await stack.enter_async_context(opening)]
        server = HttpServer(door.app, door.streams, options.drain_timeout, message_bytes, beside)
        await server.answer(listener)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{host}:{port} cannot be had ({reason}); choose another port or host") from error
    # Connections inherit it. Without it, asyncio leaves Nagle's algorithm on for a listener made this way,
    # and the first audio, written after the head, waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _door_options(options: argparse.Namespace) -> DoorOptions:
    """Raises ValueError or OSError where they do not go together or cannot be read."""
    keys = tuple(options.api_key)
    if options.api_keys_file is not None:
        keys += _read_keys(options.api_keys_file)
    for name in ("streams_per_key", "characters_per_key"):
        if getattr(options, name) is not None and not keys:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option}: there is no key; give --api-key or --api-keys-file, too")
    return DoorOptions(
        servers=options.server,
        credentials=_credentials(options),
        api_keys=keys,
        streams_per_key=options.streams_per_key,
        characters_per_key=options.characters_per_key,
        voices_per_key=options.voices_per_key,
        allow_origins=tuple(options.allow_origin),
        limits=SpeechLimits(options.max_body_bytes, options.request_timeout, options.reader_timeout),
        language=options.language,
    )


def _credentials(options: argparse.Namespace) -> grpc.ChannelCredentials | None:
    """Raises ValueError or OSError where they do not go together or cannot be read."""
    files = (options.server_ca, options.server_certificate, options.server_key)
    if not options.server_tls and files == (None, None, None):
        return None
    try:
        return tls_credentials(*files)
    except ValueError as error:
        raise ValueError(f"--server-certificate, --server-key: {error}") from error


def _read_keys(path: Path) -> tuple[str, ...]:
    keys = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    if not keys:
        # An empty list of keys would open the door to everybody.
        raise ValueError(f"--api-keys-file: {path} holds no key; allowed: one on each line")
    return keys


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Answer HTTP as OpenAI's speech interface does, WebSockets as ElevenLabs' does, and gRPC "
        "as Riva's does, for Talkahead servers behind it.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--server",
        type=_addresses,
        default=(DEFAULT_SERVER,),
        metavar="HOST:PORT[,HOST:PORT...]",
        help="gRPC addresses of servers; the one that speaks least is asked first "
        f"(default: {DEFAULT_SERVER})",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=0, help="(default: a free one)")
    parser.add_argument(
        "--riva-port",
        type=_port,
        metavar="PORT",
        help="of gRPC for Riva's clients; 0: a free one (default: none, that door stays closed)",
    )
    parser.add_argument(
        "--language",
        default=DoorOptions.language,
        metavar="CODE",
        help="that the servers speak; Riva's clients are told, and refused another (default: %(default)s)",
    )
    parser.add_argument(
        "--drain-timeout",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="how long open streams may go on after a signal (default: %(default)s)",
    )
    _add_tls(parser.add_argument_group("TLS, of the servers"))
    _add_access(parser.add_argument_group("who may ask", "default: everybody who reaches the port"))
    _add_limits(parser.add_argument_group("limits"))
    return parser


def _add_tls(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--server-tls", action="store_true", help="they have it, as any of the files says")
    for name, about in (
        ("ca", "who has signed their certificates, in PEM (default: whom gRPC trusts by itself)"),
        ("certificate", "the gateway's own, in PEM, for servers that ask for one"),
        ("key", "of that certificate, in PEM"),
    ):
        group.add_argument(f"--server-{name}", type=Path, metavar="FILE", help=about)


def _add_access(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--api-key",
        type=_key,
        action="append",
        default=[],
        metavar="KEY",
        help="a key that clients may send as 'Authorization: Bearer KEY'; repeatable. Others on this machine "
        "can read a command line: better in a file",
    )
    group.add_argument(
        "--api-keys-file", type=Path, metavar="PATH", help="a file with a key on each line, in UTF-8"
    )
    group.add_argument(
        "--streams-per-key", type=_count, metavar="N", help="at once; the next one gets 429 (default: any)"
    )
    group.add_argument(
        "--characters-per-key",
        type=_count,
        metavar="N",
        help="of text in a minute; what is more gets 429 (default: any)",
    )
    group.add_argument(
        "--voices-per-key",
        type=_count,
        default=DEFAULT_PER_KEY,
        metavar="N",
        help="recordings that are kept to be spoken like, in memory (default: %(default)s)",
    )
    group.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a site whose pages may ask, as https://example.org, or * for all; repeatable (default: none)",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    default = SpeechLimits()
    group.add_argument(
        "--max-body-bytes",
        type=_count,
        default=default.body_bytes,
        metavar="N",
        help="of a request, or of one message over a WebSocket or gRPC (default: %(default)s)",
    )
    group.add_argument(
        "--request-timeout",
        type=_seconds,
        default=default.request_s,
        metavar="S",
        help="from a request's head to the end of its body; over gRPC, for the next request to come "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--reader-timeout",
        type=_seconds,
        default=default.reader_s,
        metavar="S",
        help="for a client to take what was sent to it (default: %(default)s)",
    )


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in text.split(","))
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
            raise argparse.ArgumentTypeError(f"{address!r} is not HOST:PORT, with a port from 1 to 65535")
    if len(set(addresses)) < len(addresses):
        raise argparse.ArgumentTypeError(f"{text!r} names an address twice")
    return addresses


def _key(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("a key has at least one character that is not a space")
    return text.strip()


def _port(text: str) -> int:
    return _whole(text, 0, 65_535)


def _count(text: str) -> int:
    return _whole(text, 1, 1 << 40)


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


if __name__ == "__main__":
    sys.exit(main())
