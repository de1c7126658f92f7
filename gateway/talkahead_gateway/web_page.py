"""The page that a browser gets: its files, and what it lets choose from."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from talkahead_client.protocol import DRAFTER_NAMES, VERIFIER_NAMES

_FILES = Path(__file__).parent / "page"
_OWN_ALONE = {"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff"}
"""Nothing comes from another address, or goes there."""


def is_for_people(request: Request) -> bool:
    """Whether a browser asks, rather than a program."""
    return "text/html" in request.headers.get("accept", "")


def page() -> Response:
    return FileResponse(_FILES / "index.html", headers={**_OWN_ALONE, "Vary": "Accept"})


def page_routes() -> list[BaseRoute]:
    """Of what the page is made of."""
    return [Route("/page/choices.json", _choices), Mount("/page", StaticFiles(directory=_FILES))]


async def _choices(request: Request) -> Response:
    """What a request may name; which pairs a server takes, it says itself."""
    return JSONResponse({"drafters": DRAFTER_NAMES, "verifiers": VERIFIER_NAMES})
