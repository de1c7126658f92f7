"""`talkahead voices add, list, remove`: voices by example, kept in a repository as their codes.

A stored voice is spoken as a reference is that comes with a request, but is encoded once, here. Servers that
start from then on offer it by its name.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from talkahead.errors import BadRequest, TalkaheadError
from talkahead.families.added_voices import AddedVoice, added_voices, codec_of, path_of
from talkahead.families.registry import load_family
from talkahead.speech_format import SpeechFormat

if TYPE_CHECKING:
    from talkahead.families.contracts import Family, OwnVoice

_VERSION = "1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `add`."""
    add = parser.add_argument
    _add_name(parser)
    add("recording", type=Path, help="a WAV file of one speaker, of any rate")
    add("--text", required=True, help="what is said in it, word by word")
    add("--replace", action="store_true", help="in place of the voice that was added under this name")


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `remove`."""
    _add_name(parser)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the voice, as requests will ask for it")


class Shelf:
    """The voices of a repository.

    Raises:
        TalkaheadError: it is none whose voices can be told.
    """

    def __init__(self, repository: Path) -> None:
        self.encoder, self.vocoder, self.frontend = (
            repository / name / _VERSION for name in ("encoder", "vocoder", "frontend")
        )
        self.speech = SpeechFormat.read(self.vocoder)
        self.family: Family = load_family(self.speech.family)

    @property
    def voices(self) -> tuple[OwnVoice, ...]:
        return self.family.voices(self.encoder)

    @property
    def added(self) -> tuple[AddedVoice, ...]:
        return added_voices(self.encoder)

    def check_name(self, name: str, *, replaces: bool) -> None:
        """Raises BadRequest for one that cannot be given."""
        if not _NAME.fullmatch(name):
            raise BadRequest("NAME", name, "1 to 64 of A-Z, a-z, 0-9 and _.-, with no mark first")
        free = {one.name for one in self.added} if replaces else set()
        if name in {voice.name for voice in self.voices} - free:
            raise BadRequest("NAME", name, "one that no voice has (--replace: or that was added)")


def add(options: argparse.Namespace) -> int:
    """Raises TalkaheadError for what cannot be spoken like."""
    import torch  # takes a second, and other commands do without

    from talkahead.audio.recording import read_wav
    from talkahead.serving.reference_reader import ReferenceReader

    shelf, name = Shelf(options.repository.resolve()), options.name
    shelf.check_name(name, replaces=options.replace)
    reader = ReferenceReader(shelf.speech, shelf.family.frontend(shelf.frontend, shelf.speech), "")
    audio = read_wav(options.recording, shelf.speech.sample_rate_hz) if shelf.speech.has_encoder else None
    reference = reader.read(audio, options.text)
    codec = shelf.family.codec(shelf.vocoder, torch.device("cpu"))
    frames = tuple(map(tuple, codec.encode(reference.audio).tolist()))
    AddedVoice(name, reference.said, frames, codec_of(shelf.encoder)).save(shelf.encoder)
    seconds = len(frames) / shelf.speech.frames_per_s
    print(f"voices: {name} added, {seconds:.1f} s of speech; servers that start from now on have it")
    return 0


def show(options: argparse.Namespace) -> int:
    """One line each, the default first."""
    shelf = Shelf(options.repository.resolve())
    seconds = {one.name: len(one.frames) / shelf.speech.frames_per_s for one in shelf.added}
    for voice in shelf.voices:
        print(f"{voice.name}  added, {seconds[voice.name]:.1f} s" if voice.name in seconds else voice.name)
    return 0


def remove(options: argparse.Namespace) -> int:
    """Raises TalkaheadError for one that was not added; one that cannot be read any more goes as well."""
    encoder = Shelf(options.repository.resolve()).encoder
    path = path_of(encoder, options.name)
    if not _NAME.fullmatch(options.name) or not path.exists():
        there = ", ".join(sorted(one.stem for one in path_of(encoder, "x").parent.glob("*.json")))
        raise TalkaheadError(f"NAME: {options.name!r} was not added here; allowed: {there or 'none'}")
    path.unlink()
    print(f"voices: {options.name} removed; servers that run still have it")
    return 0
