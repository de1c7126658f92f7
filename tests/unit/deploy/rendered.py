"""What helm renders of the chart, and how things are found in it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from talkahead.launcher.command import make_parser
from talkahead.launcher.probe import _parser as make_probe_parser

from deploy.chart import RELEASE, Manifest, variants

VARIANTS = {variant.name: variant for variant in variants()}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [one for one in manifests if one["kind"] == kind]


def deployment_of(manifests: list[Manifest]) -> Manifest:
    """Of the replicas."""
    return next(one for one in of_kind(manifests, "Deployment") if one["metadata"]["name"] == RELEASE)


def is_of_the_proxy(manifest: Manifest) -> bool:
    return str(manifest["metadata"]["name"]) == f"{RELEASE}-proxy"


def config_of_the_proxy(manifests: list[Manifest]) -> str:
    """What Envoy reads."""
    (config,) = [one for one in of_kind(manifests, "ConfigMap") if is_of_the_proxy(one)]
    return str(config["data"]["envoy.yaml"])


def pod_of(manifests: list[Manifest]) -> dict[str, Any]:
    pod: dict[str, Any] = deployment_of(manifests)["spec"]["template"]["spec"]
    return pod


def container_of(manifests: list[Manifest]) -> dict[str, Any]:
    (container,) = pod_of(manifests)["containers"]
    assert isinstance(container, dict)
    return container


def is_of_the_gateway(manifest: Manifest) -> bool:
    return str(manifest["metadata"]["name"]) == f"{RELEASE}-gateway"


def options_of(manifests: list[Manifest]) -> argparse.Namespace:
    """What `talkahead serve` takes the container's arguments for; it exits at one that it does not know."""
    return make_parser().parse_args(["serve", *container_of(manifests)["args"]])


def asked_by(probe: dict[str, Any]) -> argparse.Namespace:
    """What `talkahead-probe` takes the probe's arguments for."""
    program, *arguments = probe["exec"]["command"]
    assert program == "talkahead-probe"
    return make_probe_parser().parse_args(arguments)


def selectors_of(manifest: Manifest) -> Iterator[dict[str, str]]:
    """The labels of pods that an object is about."""
    spec = manifest.get("spec", {})
    match manifest["kind"]:
        case "Service":
            yield spec["selector"]
        case "Deployment" | "PodDisruptionBudget":
            yield spec["selector"]["matchLabels"]
        case "NetworkPolicy":
            yield spec["podSelector"]["matchLabels"]
