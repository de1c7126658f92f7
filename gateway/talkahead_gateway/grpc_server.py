"""gRPC beside HTTP, in the same event loop, on a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio

from talkahead_gateway.http_server import shown_address

_FAREWELL_S = 1
"""For calls that were cut, to tell their clients so."""


class PortTaken(Exception):
    """Somebody else listens there, or nobody may."""


@asynccontextmanager
async def grpc_server(
    handlers: grpc.GenericRpcHandler, host: str, port: int, message_bytes: int
) -> AsyncIterator[str]:
    """Answers while it is open.

    Args:
        handlers: what answers.
        host: the address to listen on.
        port: 0 = a free one.
        message_bytes: of a request at most.

    Yields:
        where it listens, `host:port`.

    Raises:
        PortTaken: it cannot be had.
    """
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", message_bytes),
            # Two gateways on one port would else share its connections, and nobody would be told.
            ("grpc.so_reuseport", 0),
        )
    )
    server.add_generic_rpc_handlers((handlers,))
    try:
        bound = server.add_insecure_port(shown_address(host, port))
    except RuntimeError as error:
        raise PortTaken(f"{shown_address(host, port)} cannot be had; choose another --riva-port") from error
    await server.start()
    try:
        yield shown_address(host, bound)
    finally:
        await server.stop(_FAREWELL_S)
