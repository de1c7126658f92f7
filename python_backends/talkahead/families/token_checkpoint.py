"""From a downloaded folder in Hugging Face's layout to a talker that knows no token but those of speech."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from talkahead.backbone.checkpoint import EMBEDDINGS, HEAD, Checkpoint
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.errors import ArtifactMismatch
from talkahead.families.imported_checkpoint import Download, Parts, Tensors
from talkahead.families.token_layout import SpeechTokens

_SEGMENT_SHARE = 0.7
"""Of the positions: the rest is a reference's, its words and its speech."""
_LICENCE = re.compile(r"^license(?:_name)?:[ \t]*[\"']?([\w.+-]+)", re.MULTILINE)


def compact_config(config: DecoderConfig, speech: SpeechTokens) -> DecoderConfig:
    return replace(config, vocab_size=speech.num_codes + 1, eos_token_id=speech.num_codes)


def compact_tensors(checkpoint: Checkpoint, speech: SpeechTokens) -> Tensors:
    """Of the tables the rows of speech alone; a tied head is no tensor of its own."""
    return dict(_compacted(checkpoint, speech))


def _compacted(checkpoint: Checkpoint, speech: SpeechTokens) -> Iterator[tuple[str, Parts]]:
    for name, tensor in checkpoint.items():
        if name not in (EMBEDDINGS, HEAD):
            yield name, (tensor,)
        elif name == EMBEDDINGS or not checkpoint.config.tie_word_embeddings:
            yield name, speech_rows(tensor, speech)


def speech_rows(table: Tensor, speech: SpeechTokens) -> Parts:
    """Rows of codes, and then that of the end, of a table over the whole vocabulary [V, ...]."""
    return table[speech.first : speech.first + speech.num_codes], table[speech.end : speech.end + 1]


def positions(download: Download, config: DecoderConfig, usual: int) -> tuple[int, int]:
    """`max_positions` and `segment_positions`; raises ArtifactMismatch for more than the model has."""
    most = config.max_position_embeddings
    wanted = min(usual, most) if download.positions is None else download.positions
    if not 1 <= wanted <= most:
        raise ArtifactMismatch(
            f"--positions: {wanted} is not accepted; allowed: 1 to {most}, the max_position_embeddings "
            f"of {download.folder / 'config.json'}"
        )
    return wanted, int(wanted * _SEGMENT_SHARE)


def licence(folder: Path, usual: str) -> str:
    """What the model card states, else what the publishers are known to ask for."""
    card = folder / "README.md"
    found = _LICENCE.search(card.read_text(encoding="utf-8")) if card.exists() else None
    return found[1] if found else f"{usual} (as published; the folder does not state it)"


def refuse_phonemes(download: Download, family: str) -> None:
    """Raises ArtifactMismatch where phonemes are asked for, and the family reads text."""
    if download.phonemes is not None:
        raise ArtifactMismatch(
            f"--phonemes: {download.phonemes!r} is not accepted; allowed: nothing, as {family} reads text"
        )
