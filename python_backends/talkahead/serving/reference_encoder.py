"""Recordings to frames of the family's codec, each once."""

from __future__ import annotations

import numpy as np

from talkahead.config import ModelConfig
from talkahead.errors import TalkaheadError
from talkahead.families.contracts import Codec, Frames, Samples
from talkahead.serving.voice_cache import VoiceCache
from talkahead.speech_format import SpeechFormat
from talkahead.telemetry import EncoderTelemetry
from talkahead.types import SegmentHeader

_CACHE_BYTES = 16 << 20
_WARM_UP_SECONDS = (1, 4)


class ReferenceEncoder:
    """Encodes each reference once; its frames serve every segment, of this stream and of later ones."""

    def __init__(
        self, config: ModelConfig, codec: Codec, speech: SpeechFormat, telemetry: EncoderTelemetry
    ) -> None:
        self._codec = codec
        self._telemetry = telemetry
        self._cache = VoiceCache(config.whole("voice_cache_bytes", _CACHE_BYTES))
        for seconds in _WARM_UP_SECONDS:
            codec.encode(np.zeros(speech.frames(seconds) * speech.hop, np.float32))

    def frames(self, header: SegmentHeader, audio: Samples) -> Frames:
        """What the talker goes on from, [F, C].

        Args:
            audio: [N], with a stream's first segment; later ones find its frames in the cache.
        """
        key, cache = header.reference, self._cache
        frames = cache.find(key)
        if header.segment == 0:
            self._telemetry.voice(is_hit=frames is not None)
        if frames is None:
            frames = self._encode(audio)
            cache.keep(key, frames)
        if header.last:
            cache.unpin(key, header.stream)
        else:
            cache.pin(key, header.stream)
        cache.make_room()
        self._telemetry.voices_kept(cache.num_bytes)
        return frames

    def _encode(self, audio: Samples) -> Frames:
        """Alone, so that no neighbour can change them."""
        if not len(audio):
            raise TalkaheadError("a segment came without its reference, which the cache does not know")
        return self._codec.encode(audio)
