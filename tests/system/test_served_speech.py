"""The voice that is served is understood."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hearing import speak
from served import REPOSITORY
from talkahead.text import TextFrontend
from talkahead_client import Client
from texts import SENTENCES

from instruments.recogniser import Recogniser

WORD_ERRORS = 0.4
"""Of all words; noise gets nearly all of them wrong, and the teacher a tenth."""


def untrained_models() -> list[str]:
    manifests = REPOSITORY.glob("*/1/manifest.json")
    return [path.parts[-3] for path in manifests if "untrained" in json.loads(path.read_text())["data"]]


@pytest.mark.skipif(bool(untrained_models()), reason=f"random weights in {', '.join(untrained_models())}")
def test_recogniser_understands_the_server(client: Client) -> None:
    words = [" ".join(segment.words for segment in TextFrontend().segments(text)) for text in SENTENCES]
    recogniser = Recogniser(words)
    voices = client.voices()
    edits = total = 0
    for number, (text, asked) in enumerate(zip(SENTENCES, words, strict=True)):
        audio = speak(client, text, seed=number, voice=voices[number % len(voices)]).audio
        errors = recogniser.errors(asked, np.round(32_767 * audio).astype(np.int16))
        edits, total = edits + errors.edits, total + errors.words
    print(f"word errors: {edits} of {total}")
    assert edits / total < WORD_ERRORS
