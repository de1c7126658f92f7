"""Files that do not fit are told before a server is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import make_root, make_signed
from talkahead.errors import TalkaheadError
from talkahead.launcher.command import make_parser, serve_options
from talkahead.launcher.server_process import ServeOptions

pytestmark = pytest.mark.needs("openssl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With root.pem, and one.pem and other.pem that it has signed, and their keys."""
    root = make_root(tmp_path)
    for name in ("one", "other"):
        make_signed(tmp_path, name, root)
    (tmp_path / "text.pem").write_text("no certificate", encoding="utf-8")
    return tmp_path


def options_of(folder: Path, **files: str) -> ServeOptions:
    given = [f"--tls-{name.replace('_', '-')}={folder / file}" for name, file in files.items()]
    return serve_options(make_parser().parse_args(["serve", *given]))


def test_triton_is_told_and_http_stays_on_this_machine(folder: Path) -> None:
    options = options_of(folder, certificate="one.pem", key="one.key", client_ca="root.pem")
    assert options.tls is not None
    assert dict(options.tls.server_flags) == {
        "grpc-use-ssl": "true",
        "grpc-use-ssl-mutual": "true",
        "grpc-server-cert": str(folder / "one.pem"),
        "grpc-server-key": str(folder / "one.key"),
        "grpc-root-cert": str(folder / "root.pem"),
    }
    assert options.addresses.has_tls


def test_clients_need_no_certificate_unless_that_is_asked_for(folder: Path) -> None:
    options = options_of(folder, certificate="one.pem", key="one.key")
    assert options.tls is not None
    assert "grpc-use-ssl-mutual" not in options.tls.server_flags


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"certificate": "one.pem"}, "--tls-certificate needs both"),
        ({"key": "one.key"}, "--tls-key needs both"),
        ({"client_ca": "root.pem"}, "--tls-client-ca needs both"),
        ({"certificate": "one.pem", "key": "other.key"}, "one.pem, --tls-key .*other.key: .*MISMATCH"),
        ({"certificate": "text.pem", "key": "one.key"}, "text.pem, .*allowed: a certificate and its key"),
        ({"certificate": "gone.pem", "key": "one.key"}, "gone.pem, .*No such file"),
        (
            {"certificate": "one.pem", "key": "one.key", "client_ca": "text.pem"},
            "--tls-client-ca .*text.pem: .*allowed: certificates in PEM",
        ),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, files: dict[str, str], told: str) -> None:
    with pytest.raises(TalkaheadError, match=told):
        options_of(folder, **files)
