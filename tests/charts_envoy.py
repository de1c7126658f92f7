"""Envoy's configuration as the chart renders it for replicas that take clients with a certificate alone."""

from __future__ import annotations

from pathlib import Path

from deploy.chart import FOLDER, RELEASE, Variant

REPLICAS = f"{RELEASE}-grpc"
"""What their certificates must be for."""
_SECRET = "/etc/talkahead/tls"


def envoy_by_tls(secret: Path) -> str:
    """With the proxy's secret in that folder."""
    proxied = Variant("proxied", (FOLDER / "values-proxied.yaml", FOLDER / "values-tls.yaml"))
    (config,) = [
        one["data"]["envoy.yaml"]
        for one in proxied.manifests()
        if one["metadata"]["name"] == f"{RELEASE}-proxy" and one["kind"] == "ConfigMap"
    ]
    assert _SECRET in config
    return str(config).replace(_SECRET, str(secret))
