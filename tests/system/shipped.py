"""The voice that is shipped, as its files describe it: rates and names differ from voice to voice."""

from __future__ import annotations

from served import REPOSITORY
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

CODEC = REPOSITORY / "vocoder" / "1"
SPEECH = SpeechFormat.read(CODEC)
FAMILY = load_family(SPEECH.family)
VOICES = tuple(voice.name for voice in FAMILY.voices(REPOSITORY / "encoder" / "1"))
