"""What a public checkpoint becomes before it is written: tensors are views of its files, and in no memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.config import SamplingDefaults
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.table_encoder import EncoderConfig

Parts = tuple[Tensor, ...]
"""A tensor in parts that follow one another along its first axis."""
Tensors = Mapping[str, Parts]


@dataclass(frozen=True)
class Download:
    """Folders as their publishers made them, and what the user wants of them.

    Args:
        folder: of the talker: config.json, weights, tokenizer.json.
        codec: of the codec.
        positions: of the longest segment with its prompt and reference; None: as many as the family's own
            code uses, where the checkpoint has them.
        phonemes: who makes them, where the family has a choice; None: its default.
        silence: codes of a silent frame, where the codec's folder holds no encoder to find them by.
    """

    folder: Path
    codec: Path
    positions: int | None = None
    phonemes: str | None = None
    silence: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ImportedDraft:
    """A draft that came with the talker.

    Args:
        drafter: which one it is for: `heads`, `mtp`.
        config: the description that goes into its folder, without the talker that it belongs to.
    """

    drafter: str
    config: Mapping[str, Any]
    tensors: Tensors


@dataclass(frozen=True)
class ImportedCheckpoint:
    """Everything that a model repository is written of.

    Args:
        family: by name.
        licence, codec_licence: of the weights, as their folders state them.
        talker: its config, of the compact vocabulary: codes, then the end of speech.
        tensors: the talker's, under their Hugging Face names.
        table: the whole embedding table, [V, D].
        max_positions, segment_positions: as `SpeechFormat` has them.
    """

    family: str
    download: Download
    licence: str
    codec_licence: str
    talker: DecoderConfig
    tensors: Tensors
    sampling: SamplingDefaults
    table: Tensor
    encoder: EncoderConfig
    frontend: FrontendConfig
    max_positions: int
    segment_positions: int
    drafts: tuple[ImportedDraft, ...] = ()
