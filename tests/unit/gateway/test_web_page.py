"""The page's files: all of them are served, and none of them asks for anything elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import talkahead_gateway
from answering import Open

FILES = sorted((Path(talkahead_gateway.__file__).parent / "page").iterdir())
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
_NAMESPACE = "http://www.w3.org/2000/svg"
_ADDRESS = re.compile(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*")


async def test_a_browser_gets_the_page_and_a_program_does_not(open_door: Open) -> None:
    async with open_door() as door:
        page = await door.http.get("/", headers=BROWSER)
        assert page.headers["content-type"].startswith("text/html") and "<title>Talkahead" in page.text
        assert page.headers["content-security-policy"] == "default-src 'self'"
        assert (await door.http.get("/")).json()["name"] == "talkahead"
        for own in re.findall(r'(?:src|href)="(page/[^"]+)"', page.text):
            assert (await door.http.get(f"/{own}")).status_code == 200


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
async def test_every_file_is_served_as_it_is(open_door: Open, path: Path) -> None:
    kinds = {".js": "javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg"}
    async with open_door() as door:
        answer = await door.http.get(f"/page/{path.name}")
        assert answer.content == path.read_bytes() and kinds[path.suffix] in answer.headers["content-type"]
        assert (await door.http.get("/page/../door.py")).status_code == 404


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_another_address(path: Path) -> None:
    assert set(_ADDRESS.findall(path.read_text(encoding="utf-8"))) <= {_NAMESPACE}


async def test_a_page_may_be_asked_for_without_a_key(open_door: Open) -> None:
    async with open_door(api_keys=("one",)) as door:
        assert (await door.http.get("/", headers=BROWSER)).status_code == 200
        choices = (await door.http.get("/page/choices.json")).json()
        assert "heads" in choices["drafters"] and "match" in choices["verifiers"]
        assert (await door.http.get("/v1/audio/voices")).status_code == 401
