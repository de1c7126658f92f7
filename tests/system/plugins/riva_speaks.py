"""Speaks texts with today's nvidia-riva-client, and prints what it was told of their words.

It runs in an environment of its own: `riva_speaks.py RIVA TEXT...`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import riva.client

RATE_HZ = 24_000


def speak(riva_address: str, texts: list[str]) -> dict[str, Any]:
    auth = riva.client.Auth(uri=riva_address)
    service = riva.client.SpeechSynthesisService(auth)
    form: dict[str, Any] = {"custom_dictionary": {}, "sample_rate_hz": RATE_HZ}
    form |= {"custom_configuration": {"seed": "5"}, "enable_word_time_offsets": True}
    answers = list(service.synthesize_online(texts, "heart", **form))
    whole = service.synthesize(texts[0], "heart", **form)
    return {
        "audio_s": sum(len(answer.audio) for answer in answers) / (2 * RATE_HZ),
        "rate_hz": RATE_HZ,
        "words": [word for answer in answers for word in told(answer)],
        "whole": told(whole),
    }


def told(answer: Any) -> list[Any]:  # noqa: ANN401
    return [[word.word, word.start_time, word.end_time] for word in answer.meta.words]


if __name__ == "__main__":
    riva_address, *texts = sys.argv[1:]
    print(json.dumps(speak(riva_address, texts)))
