"""Certificates for a test, by openssl: roots, and who is signed by one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """Files in PEM."""

    certificate: Path
    key: Path


def make_root(folder: Path, name: str = "root") -> Certificate:
    """One that signs itself."""
    made = _files(folder, name)
    _openssl("req", "-x509", *_new(made, name), "-days", "2", "-out", made.certificate)
    return made


def make_signed(folder: Path, name: str, root: Certificate, host: str = "localhost") -> Certificate:
    """One that a root has signed, for 127.0.0.1 and a name."""
    made = _files(folder, name)
    request, extension = folder / f"{name}.csr", folder / f"{name}.ext"
    extension.write_text(f"subjectAltName=IP:127.0.0.1,DNS:{host}", encoding="utf-8")
    _openssl("req", *_new(made, name), "-out", request)
    signing = ("-CA", root.certificate, "-CAkey", root.key, "-CAcreateserial", "-days", "2")
    _openssl("x509", "-req", "-in", request, *signing, "-extfile", extension, "-out", made.certificate)
    return made


def mounted(folder: Path, made: Certificate, root: Certificate) -> Path:
    """A new folder as Kubernetes mounts a secret of TLS: tls.crt, tls.key, and ca.crt of who has signed."""
    folder.mkdir()
    for name, content in (("tls.crt", made.certificate), ("tls.key", made.key), ("ca.crt", root.certificate)):
        shutil.copy(content, folder / name)
    return folder


def _files(folder: Path, name: str) -> Certificate:
    return Certificate(folder / f"{name}.pem", folder / f"{name}.key")


def _new(made: Certificate, name: str) -> tuple[str | Path, ...]:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    return (*curve, "-nodes", "-keyout", made.key, "-subj", f"/CN={name}")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
