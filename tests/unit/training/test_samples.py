"""The page links to what lies beside it, shows texts as they are, and counts what was heard."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from PIL import Image

from instruments.measures.word_errors import WordErrors
from instruments.recording import Recording
from training.pictures import draw
from training.samples import Sample, Take, page, totals


def sample(text: str, edits: int, is_long: bool = False) -> Sample:
    takes = tuple(
        Take(speaker, f"01-slt-{speaker}", 1.5, WordErrors(wrong, 4, "what was heard"))
        for speaker, wrong in (("teacher", 0), ("codec", 0), ("server", edits))
    )
    return Sample(text, "slt", is_long, takes)


def test_links_are_relative_and_texts_are_escaped() -> None:
    written = page({"short": [sample("Is 1 < 2 & <b>bold</b>?", 0)]}, seed=1)
    assert "Is 1 &lt; 2 &amp; &lt;b&gt;bold&lt;/b&gt;?" in written
    assert re.findall(r'src="([^"]+)"', written) == [
        f"01-slt-{speaker}.{ending}"
        for speaker in ("teacher", "codec", "server")
        for ending in ("png", "wav")
    ]


def test_what_was_heard_is_shown_where_it_differs() -> None:
    assert "what was heard" not in page({"short": [sample("Right.", 0)]}, seed=1)
    written = page({"short": [sample("Right.", 0)], "long": [sample("Wrong.", 2, is_long=True)]}, seed=1)
    assert written.count("what was heard") == 1
    assert written.count('class="wide"') == 1


def test_totals_of_each_speaker() -> None:
    teacher, _, server = totals([sample("One.", 1), sample("Two.", 2)])
    assert (teacher.speaker, teacher.edits, teacher.words) == ("teacher", 0, 8)
    assert (server.speaker, server.edits, server.seconds) == ("server", 3, 3.0)


def test_pictures(tmp_path: Path) -> None:
    recording = Recording((0.25 * np.sin(np.arange(24_000) / 10)).astype(np.float32), 24_000)
    draw(recording, 2.0, tmp_path / "a.png", width=4.0)
    with Image.open(tmp_path / "a.png") as picture:
        assert 300 < picture.width < 700
        opaque = np.asarray(picture.convert("RGBA"))[..., 3] > 0
    # The audio takes the first half of the time axis.
    half = opaque.shape[1] // 2
    assert opaque[:, : half - 5].any(0).all() and not opaque[:, half + 5 :].any()
