"""The voice that is served is understood."""

from __future__ import annotations

import json

import pytest
from hearing import speak
from served import REPOSITORY
from shipped import SPEECH
from talkahead.text import TextFrontend
from talkahead_client import Client
from texts import SENTENCES

from instruments.measures.ear import Ear
from instruments.measures.word_errors import WordErrors, word_error_percent
from instruments.recording import Recording

HEARD = SENTENCES[:8]
"""By each voice in turn."""
WORD_ERRORS_PERCENT = 25.0
"""Whisper hears fewer in any voice that is worth shipping, and 93 % in a teacher's under noise as loud as
itself."""

REPLIES = ("No.", "Go.", "Sure.", "B?")
REPLY_S = 1.0


def untrained_models() -> list[str]:
    manifests = REPOSITORY.glob("*/1/manifest.json")
    return [path.parts[-3] for path in manifests if "untrained" in json.loads(path.read_text())["data"]]


@pytest.mark.skipif(bool(untrained_models()), reason=f"random weights in {', '.join(untrained_models())}")
def test_recogniser_understands_the_server(client: Client) -> None:
    frontend, ear, voices = TextFrontend(), Ear(threads=2), client.voices()
    found = []
    for number, text in enumerate(HEARD):
        asked = " ".join(segment.words for segment in frontend.segments(text))
        said = speak(client, text, seed=number, voice=voices[number % len(voices)])
        heard = ear.hear(Recording(said.audio, said.last.sample_rate_hz))
        found.append(WordErrors.between(asked, heard))
    percent = word_error_percent(found)
    print(f"word errors: {percent:.1f} %")
    assert percent < WORD_ERRORS_PERCENT


@pytest.mark.parametrize("text", REPLIES)
def test_a_reply_is_over_with_its_last_sound(client: Client, text: str) -> None:
    """Speech that goes on after its text is babble: of these, seconds were heard in two of three draws."""
    longest = max(len(speak(client, text, seed=seed).audio) for seed in range(8))
    assert longest < REPLY_S * SPEECH.sample_rate_hz
