"""A reference's speech as the talker hears it: the codec's codes in the talker's own embedding.

Shapes: N samples, F frames, D width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from talkahead.audio.codec import Codec
from talkahead.backbone.checkpoint import EMBEDDINGS, Checkpoint
from talkahead.config import ModelConfig
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.serving.artifacts import verified
from talkahead.serving.voice_cache import Codes, VoiceCache
from talkahead.telemetry import EncoderTelemetry
from talkahead.types import SegmentHeader

_CACHE_BYTES = 16 << 20
_WARM_UP_SECONDS = (1, 4)


class ReferenceEncoder:
    """Encodes each reference once; its codes serve every segment, of this stream and of later ones.

    Args:
        width: of the prompts that the rows go on with.
    """

    def __init__(
        self, config: ModelConfig, device: torch.device, width: int, telemetry: EncoderTelemetry
    ) -> None:
        self._device = device
        self._telemetry = telemetry
        self._cache = VoiceCache(config.whole("voice_cache_bytes", _CACHE_BYTES))
        self._codec = Codec.load(verified(config.artifact_folder("vocoder"))).to(device)
        talker = Checkpoint(verified(config.artifact_folder("talker")))
        shape = talker.config
        expected = (self._codec.config.codebook_size + 1, width)
        if (shape.vocab_size, shape.hidden_size) != expected:
            raise ArtifactMismatch(
                f"the talker knows {shape.vocab_size} tokens of width {shape.hidden_size}, the vocoder and "
                f"the encoder {expected[0]} of {width}; they were trained apart: rebuild all with make train"
            )
        self._embeddings = talker[EMBEDDINGS].to(torch.float32, copy=True).numpy()  # (V, D)
        for seconds in _WARM_UP_SECONDS:
            self._encode(np.zeros(seconds * self._codec.config.sample_rate_hz, np.float32))

    def rows(self, header: SegmentHeader, audio: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What the talker hears before this segment, [F, D].

        Args:
            audio: [N], with a stream's first segment; later ones find its codes in the cache.
        """
        codes = self._codes(header, audio)
        rows: npt.NDArray[np.float32] = self._embeddings[codes]
        return rows

    def _codes(self, header: SegmentHeader, audio: npt.NDArray[np.float32]) -> Codes:
        key, cache = header.reference, self._cache
        codes = cache.find(key)
        if header.segment == 0:
            self._telemetry.voice(is_hit=codes is not None)
        if codes is None:
            codes = self._encode(audio)
            cache.keep(key, codes)
        if header.last:
            cache.unpin(key, header.stream)
        else:
            cache.pin(key, header.stream)
        cache.make_room()
        self._telemetry.voices_kept(cache.num_bytes)
        return codes

    def _encode(self, audio: npt.NDArray[np.float32]) -> Codes:
        """Codes int32 [F] of whole frames; alone, so that no neighbour can change them."""
        if not len(audio):
            raise TalkaheadError("a segment came without its reference, which the cache does not know")
        samples = torch.from_numpy(audio)[None].to(self._device)
        frames = torch.tensor([len(audio) // self._codec.config.hop], device=self._device)
        with torch.inference_mode():
            codes = self._codec.encode(samples, frames)[0]
        return codes.cpu().numpy().astype(np.int32)
