"""The chart: its files of values, alone and together, and what helm renders with them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.helm_program import REMEDY, find_helm

FOLDER = Path(__file__).parent / "helm" / "talkahead"
DEFAULTS = "cpu"
"""The variant of values.yaml alone."""
RELEASE = "talkahead"
OLDEST_KUBERNETES = "1.28"
"""The first in which probes may have a grace period of their own, without a gate of features."""

Manifest = dict[str, Any]
"""A Kubernetes object, as YAML gives it."""


class ChartError(Exception):
    """Why the chart does not render, or what it renders is not valid; a sentence for who wrote its values."""


@dataclass(frozen=True)
class Variant:
    """Files of values that go on top of values.yaml, in this order."""

    name: str
    values: tuple[Path, ...] = ()

    def render(self, **settings: object) -> str:
        """As helm writes it, with the chart's comments. Raises ChartError with helm's own words.

        Args:
            settings: sections of values on top, as `server={"restarts": 1}`.
        """
        files = [f"--values={path}" for path in self.values]
        on_top = [f"--set-json={json.dumps(settings)}"] if settings else []
        return _helm("template", RELEASE, str(FOLDER), "--kube-version", OLDEST_KUBERNETES, *files, *on_top)

    def manifests(self, **settings: object) -> list[Manifest]:
        """The objects of it."""
        return [manifest for manifest in yaml.safe_load_all(self.render(**settings)) if manifest]


def variants() -> Iterator[Variant]:
    """values.yaml, each other file on top of it, and all at once."""
    files = sorted(FOLDER.glob("values-*.yaml"))
    yield Variant(DEFAULTS)
    yield from (Variant(path.stem.removeprefix("values-"), (path,)) for path in files)
    yield Variant("all", tuple(files))


def lint() -> None:
    """Raises ChartError for what helm finds wrong with the chart."""
    _helm("lint", "--strict", "--quiet", str(FOLDER))


def _helm(*arguments: str) -> str:
    program = find_helm()
    if program is None:
        raise ChartError(f"there is no helm ({REMEDY})")
    done = subprocess.run([program, *arguments], capture_output=True, encoding="utf-8")
    if done.returncode:
        raise ChartError((done.stderr + done.stdout).strip())
    return done.stdout
