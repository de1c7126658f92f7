"""Speaks a text with one of LiveKit's plugins, and prints what it made of the answer.

It runs in an environment of its own: `livekit_speaks.py openai|elevenlabs|nvidia HTTP RIVA TEXT`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp
from livekit.agents import tts
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT
from livekit.plugins import elevenlabs, nvidia, openai


def plugin(name: str, http: str, riva: str, session: aiohttp.ClientSession) -> tts.TTS:
    """Made as the documentation says."""
    if name == "openai":
        return openai.TTS(base_url=f"http://{http}/v1", api_key="none")
    if name == "nvidia":
        return nvidia.TTS(server=riva, use_ssl=False, voice="heart")
    address = f"http://{http}/v1"
    return elevenlabs.TTS(base_url=address, voice_id="heart", api_key="none", http_session=session)


async def speak(name: str, http: str, riva: str, text: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session:
        speaker = plugin(name, http, riva, session)
        audio_s, words = 0.0, []
        async for event in spoken(speaker, text):
            audio_s += event.frame.duration
            words += event.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, [])
        await speaker.aclose()
        told = [[str(word), word.start_time] for word in words]
        return {"audio_s": audio_s, "rate_hz": speaker.sample_rate, "words": told}


def spoken(speaker: tts.TTS, text: str) -> Any:  # noqa: ANN401
    """In pieces as a language model writes it, where the plugin takes them."""
    if not speaker.capabilities.streaming:
        return speaker.synthesize(text)
    stream = speaker.stream()
    for at in range(0, len(text), 5):
        stream.push_text(text[at : at + 5])
    stream.end_input()
    return stream


if __name__ == "__main__":
    print(json.dumps(asyncio.run(speak(*sys.argv[1:]))))
