"""The page in a real browser: pressed by keys alone, heard to its end, on narrow screens, in the dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from shutil import which
from typing import Any

import pytest
from front_door import FrontDoor
from playwright.sync_api import Browser, Page, expect, sync_playwright
from served import Served

pytestmark = pytest.mark.needs("chromium")

KEY = "sk-of-the-page"
TEXT = "One, two 𝄞 three."
"""With a character that JavaScript counts twice."""
HEARD_MS = 15_000
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Debian's; root, as in a container, has no sandbox.
        started = playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def door(server: Served) -> Iterator[FrontDoor]:
    with FrontDoor(server.grpc) as running:
        yield running


@pytest.fixture
def open_page(browser: Browser, door: FrontDoor) -> Iterator[Open]:
    """Fails at its end if a page complained, or asked for anything elsewhere."""
    complaints: list[str] = []
    elsewhere: list[str] = []
    contexts = []

    def opened(url: str = door.url, **options: Any) -> Page:  # noqa: ANN401
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(url) or elsewhere.append(request.url))
        page.goto(url)
        expect(page.locator("#text")).not_to_have_value("")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == elsewhere == []


def test_speech_is_heard_lit_and_compared_by_keys_alone(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#voice option")).not_to_have_count(0)
    press = page.keyboard.press
    press("Tab")
    expect(page.locator("#sample")).to_be_focused()
    press("Tab")
    press("Control+a")
    page.keyboard.insert_text(TEXT)
    for chosen in ("#voice", "#speed", "#drafter", "#verifier", "#seed", "#compare"):
        press("Tab")
        expect(page.locator(chosen)).to_be_focused()
        if chosen == "#drafter":
            page.keyboard.type("heads")
        if chosen == "#compare":
            press("Space")
    page.evaluate(WATCH)
    press("Control+Enter")
    expect(page.locator("#status")).to_have_text("All has been heard.", timeout=HEARD_MS)
    assert page.evaluate("window.lit") == ["One", "two", "three"]
    assert page.locator("#words").text_content() == TEXT
    assert page.locator("#words .said").all_text_contents() == ["One", "two", "three"]
    assert page.locator("#words .now").count() == 0
    expect(page.locator("#pair")).to_have_text("heads+match")
    expect(page.locator("#dry")).to_have_text(re.compile(r"^(never|\d+ times)$"))  # as fast as the machine is
    assert 0 < float(page.locator("#first").inner_text().removesuffix(" ms")) < 5_000
    expect(page.locator("#comparison")).to_contain_text("yes, every one")
    assert page.locator("#guesses .accepted:visible").count() > 0


def test_it_is_stopped_by_a_key(open_page: Open) -> None:
    page = open_page()
    page.locator("#text").fill("The museum is closed on Mondays. " * 20)
    page.locator("#speak").click()
    expect(page.locator("#words .now")).to_have_count(1, timeout=HEARD_MS)
    page.keyboard.press("Escape")
    expect(page.locator("#status")).to_have_text("Stopped.")
    expect(page.locator("#speak")).to_be_enabled()


def test_what_the_server_refuses_is_said(open_page: Open) -> None:
    page = open_page()
    page.locator("#drafter").select_option("heads")
    page.locator("#verifier").select_option("groups")
    page.locator("#speak").click()
    expect(page.locator("#status.wrong")).to_contain_text("verifier")


def test_a_key_is_asked_for_where_one_is_needed(server: Served, open_page: Open) -> None:
    with FrontDoor(server.grpc, options=("--api-key", KEY)) as locked:
        page = open_page(locked.url)
        expect(page.locator("#status.wrong")).to_contain_text("key")
        page.locator("#key").fill(KEY)
        page.locator("#key").press("Tab")
        expect(page.locator("#voice option")).not_to_have_count(0)
        page.locator("#text").fill("Yes.")
        page.locator("#speak").click()
        expect(page.locator("#status")).to_have_text("All has been heard.", timeout=HEARD_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1_280])
def test_it_fits_and_can_be_read(open_page: Open, scheme: str, width: int) -> None:
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in ("body", "label", "#speak", ".hint", "#status"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector


WATCH = """() => {
  window.lit = [];
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (target.classList.contains("now") && window.lit.at(-1) !== target.textContent)
        window.lit.push(target.textContent);
    }
  }).observe(document.getElementById("words"), { subtree: true, attributeFilter: ["class"] });
}"""
"""Keeps every word that is lit, in order: a short one may be over before a test looks."""

CONTRAST = """(selector) => {
  const rgba = (color) => {
    const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((part) => part / 255).map((part) =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const element = document.querySelector(selector);
  let behind = element;
  while (rgba(getComputedStyle(behind).backgroundColor).a === 0) behind = behind.parentElement;
  const [one, two] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor]
    .map((color) => light(rgba(color)));
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
}"""
"""Of an element's text with what lies behind it, as WCAG counts it."""
