"""Groups of codes that sound alike, by the codec's mel spectra of them in place of the talker's embeddings.

The comparison of Yanuka et al. 2025, table 3. A code is held for some frames and decoded; its spectrum is the
mean over the middle ones. Spectra are compared as they differ from the mean of all: as they are, all are
alike.

Shapes: V codes, F mel bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from talkahead.audio.codec import Codec
from talkahead.audio.mel import LogMel
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.drafting import group_artifact
from talkahead.drafting.draft_artifact import CONFIG, target_hash
from talkahead.speculation.similarity_groups import SimilarityGroups, cosine_of
from torch import Tensor
from torch.nn import functional

_HELD = 8
"""Frames that a code is held."""
_EDGE = 3
"""Frames at either end that are not looked at: they sound of the silence around them."""
_BATCH = 256


@torch.inference_mode()
def mel_spectra(codec: Codec) -> Tensor:
    """Natural-log mel spectrum of each code, less the mean of all, [V, F]."""
    hop = codec.config.hop
    log_mel = LogMel(codec.config.sample_rate_hz, hop=hop, num_mels=codec.config.num_mels)
    spectra = []
    for codes in torch.split(torch.arange(codec.config.codebook_size), _BATCH):
        audio = codec.decode(codes[:, None].expand(-1, _HELD))
        spectra.append(log_mel(audio)[:, _EDGE : _HELD - _EDGE].mean(1))
    found = torch.cat(spectra)
    return found - found.mean(0)


def mel_groups(spectra: Tensor, eos: int, sizes: Sequence[float]) -> list[tuple[float, SimilarityGroups]]:
    """Threshold and groups for each mean number of neighbours; the end of speech is a group of its own.

    Args:
        spectra: of the codes, which are the tokens below `eos`.
    """
    rows = functional.pad(spectra, (0, 0, 0, eos + 1 - len(spectra)))
    thresholds = [cosine_of(spectra, size) for size in sizes]
    return [(one, SimilarityGroups.of(rows, one, alone=[eos])) for one in thresholds]


def save_mel_groups(folder: Path, codec: Codec, talker: Path, sizes: Sequence[float]) -> None:
    """Makes what `groups` verifies by, once: a folder that is there is left as it is."""
    if (folder / group_artifact.CONFIG).exists():
        return
    eos = DecoderConfig.from_file(talker / CONFIG).eos
    group_artifact.save_groups(folder, dict(mel_groups(mel_spectra(codec), eos, sizes)), target_hash(talker))
