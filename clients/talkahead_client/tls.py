"""Credentials for a server with TLS."""

from __future__ import annotations

from pathlib import Path

import grpc


def tls_credentials(
    ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> grpc.ChannelCredentials:
    """For `Client` and `AsyncClient`; raises OSError for a file that cannot be read.

    Args:
        ca: who has signed the server's certificate, in PEM; None: whom gRPC trusts by itself.
        certificate, key: this client's own, in PEM, for a server that asks for one.
    """
    if (certificate is None) != (key is None):
        raise ValueError("a client's certificate and its key go together: give both, or neither")
    root, own_key, own_chain = (path and path.read_bytes() for path in (ca, key, certificate))
    return grpc.ssl_channel_credentials(root, own_key, own_chain)
