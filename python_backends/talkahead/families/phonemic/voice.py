"""Voices that the codec makes of those that the talker has learned: of another pitch, from another throat.

What is drawn is the speaker's own; pitch and spectra are changed before they are rendered, so that a voice
costs no weights and no training. A file beside the codec lists them in the order in which clients see them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from talkahead.errors import ArtifactMismatch

NAME = "voices.json"


@dataclass(frozen=True)
class Voice:
    """A voice, as `name` is asked for.

    Args:
        speaker: a voice that the talker has learned.
        pitch, formants: over the speaker's own.
    """

    name: str
    speaker: str
    pitch: float = 1.0
    formants: float = 1.0

    @property
    def is_changed(self) -> bool:
        return (self.pitch, self.formants) != (1.0, 1.0)


def save_voices(voices: Sequence[Voice], vocoder: Path) -> None:
    """Beside the codec, in its version folder."""
    described = json.dumps([asdict(voice) for voice in voices], indent=2) + "\n"
    (vocoder / NAME).write_text(described, encoding="utf-8")


def read_voices(vocoder: Path) -> tuple[Voice, ...]:
    """Empty where no file lists any: then voices are the talker's own.

    Raises:
        ArtifactMismatch: the file does not tell voices.
    """
    path = vocoder / NAME
    if not path.exists():
        return ()
    try:
        return tuple(Voice(**fields) for fields in json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise ArtifactMismatch(f"{path} does not list voices ({error}); write it with: make train") from error


def voices_of(vocoder: Path, speakers: Sequence[str]) -> tuple[Voice, ...]:
    """Of a repository whose talker has learned `speakers`.

    Raises:
        ArtifactMismatch: a voice is made of a speaker that the talker has not learned.
    """
    voices = read_voices(vocoder) or tuple(Voice(name, name) for name in speakers)
    for voice in voices:
        if voice.speaker not in speakers:
            raise ArtifactMismatch(
                f"{vocoder / NAME}: {voice.name} is made of {voice.speaker}; the talker has learned "
                f"{', '.join(speakers)}"
            )
    return voices
