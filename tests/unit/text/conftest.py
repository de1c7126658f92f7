"""One frontend for all tests of text: it reads its lexicon once."""

from __future__ import annotations

import pytest
from talkahead.text import TextFrontend


@pytest.fixture(scope="session")
def frontend() -> TextFrontend:
    return TextFrontend()
