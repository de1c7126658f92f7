"""Debian's Prometheus, which scrapes a server under test."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from talkahead.launcher.addresses import Addresses
from waiting import eventually

_INTERVAL = "500ms"
_START_LIMIT_S = 30.0
_END_LIMIT_S = 10.0


class Scraper:
    """`with` ends it.

    Args:
        target: of the metrics page, `host:port`.
        folder: to write into.
    """

    def __init__(self, target: str, folder: Path) -> None:
        config = folder / "prometheus.yaml"
        scraped = {"job_name": "talkahead", "static_configs": [{"targets": [target]}]}
        every = {"scrape_interval": _INTERVAL, "scrape_timeout": _INTERVAL}
        config.write_text(yaml.safe_dump({"global": every, "scrape_configs": [scraped]}), encoding="utf-8")
        self._address = f"127.0.0.1:{Addresses.choose('127.0.0.1').http}"
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._address}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        try:
            eventually(lambda: self._ask("up == 1"), bool, limit_s=_START_LIMIT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_LIMIT_S)
        finally:
            self._process.kill()
            self._log.close()

    def values(self, expression: str) -> list[float]:
        """Of every series that an expression has now."""
        return [float(one["value"][1]) for one in self._ask(expression) or ()]

    def _ask(self, expression: str) -> list[dict[str, Any]] | None:
        """None where it does not answer yet; raises HTTPError for an expression that it cannot read."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://{self._address}/api/v1/query?{query}", timeout=10) as page:
                answer = json.loads(page.read())
        except ConnectionError:
            return None
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it listens before it has opened its files
                return None
            raise
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionError):
                return None
            raise
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result
