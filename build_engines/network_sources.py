"""The networks that engines are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from talkahead.families.phonemic.frontend import NAME
from talkahead.speech_format import SpeechFormat

from build_engines.codec_source import CodecSource
from build_engines.encoder_source import EncoderSource
from build_engines.listener_source import LISTENERS, ListenerSource
from build_engines.network_source import NetworkSource, family_of, version_folder

MODELS: Mapping[str, Callable[[Path], NetworkSource]] = {"encoder": EncoderSource, "vocoder": CodecSource}
"""By the model whose network it is: of a repository."""

SOURCES: Mapping[str, Callable[[Path], NetworkSource]] = {**MODELS, "listener": ListenerSource}
"""All of them: a listener is part of the encoder, whose prompts may begin with what it heard."""


def networks_of(repository: Path) -> Sequence[str]:
    """Those that a voice has. Raises TalkaheadError where there is none."""
    family = family_of(repository)
    if family == NAME:
        return tuple(MODELS)
    hears = SpeechFormat.read(version_folder(repository, "vocoder")).has_encoder
    return ("vocoder", "listener") if hears and family in LISTENERS else ("vocoder",)
