"""`make manifests`: renders the chart with each file of values, validates it, compares files made of others.

These are Grafana's dashboard, and the Kustomize base: the chart's defaults for those who have no helm.
`--write` makes both anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import kubernetes_validate
import yaml

from deploy.chart import DEFAULTS, FOLDER, OLDEST_KUBERNETES, ChartError, Manifest, Variant, lint, variants
from deploy.observability import dashboard

RENDERED = Path(__file__).parents[1] / "build" / "manifests"
DASHBOARD = FOLDER / "files" / "dashboard.json"
BASE = Path(__file__).parent / "kustomize" / "talkahead.yaml"
FOREIGN = frozenset({"monitoring.coreos.com/v1"})
"""Kinds of an operator, which Kubernetes' own schemas do not know."""
VERSIONS = (OLDEST_KUBERNETES, kubernetes_validate.latest_version())
"""Of Kubernetes, that what is rendered must fit: the chart's oldest, and the newest with known schemas."""
_HELMS_LABELS = frozenset({"app.kubernetes.io/managed-by", "helm.sh/chart"})
_HEADER = "# What the chart renders of values.yaml; made by `python -m deploy.manifests --write`.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.manifests", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {DASHBOARD.name} and {BASE.name} anew")
    options = parser.parse_args(arguments)
    try:
        _check(DASHBOARD, dashboard.render(), options.write)
        lint()
        for variant in variants():
            print(_write(variant))
        _check(BASE, base_of(Variant(DEFAULTS).manifests()), options.write)
    except ChartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def validate(manifest: Manifest) -> None:
    """Raises ChartError that names object, field and value. An unknown field is an error too."""
    if manifest["apiVersion"] in FOREIGN:
        return
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            field = ".".join(map(str, error.path))
            raise ChartError(f"{name}, {field}: {error.message} (Kubernetes {version})") from error
        except kubernetes_validate.SchemaNotFoundError as error:
            raise ChartError(f"{name}: {error.message}") from error


def base_of(manifests: Sequence[Manifest]) -> str:
    """The Kustomize base of rendered manifests: nothing in it says that helm manages them."""
    objects: str = yaml.safe_dump_all(map(_without_helm, manifests), width=110)
    return _HEADER + objects


def _write(variant: Variant) -> str:
    """Writes what a variant renders, if it is valid; a line about it."""
    manifests = variant.manifests()
    for manifest in manifests:
        validate(manifest)
    RENDERED.mkdir(parents=True, exist_ok=True)
    path = RENDERED / f"{variant.name}.yaml"
    path.write_text(variant.render(), encoding="utf-8")
    unknown = [one["kind"] for one in manifests if one["apiVersion"] in FOREIGN]
    exception = f", of which not validated: {', '.join(unknown)}" if unknown else ""
    return f"{path}: {len(manifests)} objects{exception}"


def _check(path: Path, made: str, is_written: bool) -> None:
    """A file is what is made of others, or is written so."""
    if is_written:
        path.write_text(made, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != made:
        raise ChartError(f"{path} is not what is made of its sources: python -m deploy.manifests --write")


def _without_helm(part: object) -> object:
    """An object of Kubernetes, or a part of one."""
    if isinstance(part, list):
        return [_without_helm(one) for one in part]
    if isinstance(part, dict):
        return {name: _without_helm(one) for name, one in part.items() if name not in _HELMS_LABELS}
    return part


if __name__ == "__main__":
    sys.exit(main())
