"""The server's certificate, and whose clients it takes: TLS of gRPC, for Triton has none for HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from talkahead.errors import Code, TalkaheadError


@dataclass(frozen=True)
class Tls:
    """Files in PEM, which can be read and fit each other.

    Args:
        client_ca: who has signed the certificates of clients; None: clients need none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def __post_init__(self) -> None:
        """Raises TalkaheadError: Triton says of a bad file only that it cannot listen."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Nobody is there to type a password.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            files = f"--tls-certificate {self.certificate}, --tls-key {self.key}"
            raise _refusal(files, error, "a certificate and its key in PEM, without a password") from error
        try:
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
        except OSError as error:
            raise _refusal(f"--tls-client-ca {self.client_ca}", error, "certificates in PEM") from error

    @property
    def server_flags(self) -> Mapping[str, str]:
        """Of tritonserver."""
        flags = {
            "grpc-use-ssl": "true",
            "grpc-server-cert": str(self.certificate.resolve()),
            "grpc-server-key": str(self.key.resolve()),
        }
        if self.client_ca is not None:
            flags |= {"grpc-use-ssl-mutual": "true", "grpc-root-cert": str(self.client_ca.resolve())}
        return flags


def _refusal(files: str, error: Exception, allowed: str) -> TalkaheadError:
    return TalkaheadError(f"{files}: {error}; allowed: {allowed}", Code.INVALID_ARGUMENT)
