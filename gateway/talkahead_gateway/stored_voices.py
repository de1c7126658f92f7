"""Recordings that callers have left, to be spoken like."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Self

from talkahead_client import Reference

from talkahead_gateway.refusal import Refusal

DEFAULT_PER_KEY = 20


@dataclass(frozen=True, eq=False)
class StoredVoice:
    """One of them.

    Args:
        id: the same for the same recording, transcript and model.
        name: the caller's own, by which it can be asked for as well.
        created_s: in seconds since 1970.
    """

    id: str
    name: str
    created_s: int
    reference: Reference

    @classmethod
    def of(cls, name: str, recording: bytes, model: str, reference: Reference) -> Self:
        """The recording is the file as it came."""
        parts = (model.encode(), reference.text.encode(), recording)
        digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        return cls(f"voice_{digest[:32]}", name, int(time.time()), reference)

    def described(self) -> dict[str, object]:
        """As OpenAI's interface has it."""
        form = {"object": "audio.voice", "type": "audio_sample"}
        return {"id": self.id, "name": self.name, "created_at": self.created_s, **form}


class StoredVoices:
    """All of this process, in its memory: they end with it, and another gateway has others.

    Args:
        most_per_key: that are kept for one key.
    """

    def __init__(self, most_per_key: int = DEFAULT_PER_KEY) -> None:
        self._most_per_key = most_per_key
        self._voices: defaultdict[bytes, dict[str, StoredVoice]] = defaultdict(dict)
        """By caller, and by id in the order in which they came."""

    def of(self, caller: bytes) -> tuple[StoredVoice, ...]:
        return tuple(self._voices[caller].values())

    def find(self, caller: bytes, name: str) -> StoredVoice | None:
        """By its id, or by its name."""
        own = self._voices[caller]
        return own.get(name) or next((voice for voice in own.values() if voice.name == name), None)

    def check(self, caller: bytes, name: str) -> None:
        """Raises Refusal where one more of that name cannot be kept."""
        if self.find(caller, name) is not None:
            raise Refusal.of_field("name", name, "one that no voice of this key has; DELETE the other first")
        if len(self._voices[caller]) >= self._most_per_key:
            message = f"this key keeps {self._most_per_key} voices already, which is what it may; DELETE one"
            raise Refusal(429, message, code="rate_limit_exceeded")

    def add(self, caller: bytes, voice: StoredVoice) -> None:
        """Raises Refusal as `check` does; the same recording under another name replaces the first."""
        self.check(caller, voice.name)
        self._voices[caller][voice.id] = voice

    def remove(self, caller: bytes, name: str) -> StoredVoice:
        """Raises Refusal where there is none."""
        voice = self.find(caller, name)
        if voice is None:
            message = f"voice: {name[:60]!r} is not kept for this key; GET /v1/audio/voices says which are"
            raise Refusal(404, message, param="voice", code="voice_not_found")
        return self._voices[caller].pop(voice.id)
