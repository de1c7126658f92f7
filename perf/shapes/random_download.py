"""A public checkpoint as it is downloaded, at its true size, with random weights: a talker's folder and a
codec's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import NeuCodecModel, PreTrainedTokenizerFast, Xcodec2Model

from instruments.public_codecs import write_decoder, write_snac
from instruments.public_tokenizers import LLAMA_BASE, llasa_tokenizer, neutts_tokenizer, orpheus_tokenizer
from perf.shapes.public_shapes import PUBLIC_SHAPES
from perf.shapes.random_checkpoint import write_random_checkpoint

_QWEN_BASE = 151_643
_VOICE = {"text": "My name is Jo.", "codes": [3, 1, 4, 1, 5, 9, 2, 6]}
"""Of a family that has none of its own."""


@dataclass(frozen=True)
class PublicKind:
    """What is published together with a talker of that shape.

    Args:
        options: of import-checkpoint; codecs without what hears want a silent frame's codes.
    """

    family: str
    tokenizer: Callable[[], PreTrainedTokenizerFast]
    write_codec: Callable[[Path], object]
    has_voices: bool = True
    options: tuple[str, ...] = ()


KINDS = {
    "llasa-1b": PublicKind(
        "llasa",
        lambda: llasa_tokenizer(65_536, LLAMA_BASE),
        lambda folder: write_decoder(folder, Xcodec2Model),
        options=("--silence", "0"),
    ),
    "neutts-air": PublicKind(
        "neutts",
        lambda: neutts_tokenizer(65_536, base_size=_QWEN_BASE),
        lambda folder: write_decoder(folder, NeuCodecModel),
        has_voices=False,
        options=("--silence", "0"),
    ),
    "orpheus-3b": PublicKind("orpheus", lambda: orpheus_tokenizer(4_096, LLAMA_BASE), write_snac),
}
"""By the names of `PUBLIC_SHAPES`."""


def write_download(shape: str, talker: Path, codec: Path) -> None:
    """Writes both folders, which are new."""
    kind = KINDS[shape]
    kind.write_codec(codec)
    tokenizer = kind.tokenizer()
    tokenizer.save_pretrained(talker)
    config = replace(
        PUBLIC_SHAPES[shape], vocab_size=len(tokenizer), eos_token_id=int(tokenizer.eos_token_id)
    )
    write_random_checkpoint(config, talker)
    if not kind.has_voices:
        (talker / "voices").mkdir()
        (talker / "voices" / "jo.json").write_text(json.dumps(_VOICE), encoding="utf-8")
