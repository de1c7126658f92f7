"""The models whose networks engines are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from build_engines.codec_source import CodecSource
from build_engines.encoder_source import EncoderSource
from build_engines.network_source import NetworkSource

SOURCES: Mapping[str, Callable[[Path], NetworkSource]] = {"encoder": EncoderSource, "vocoder": CodecSource}
"""By model: of a repository."""
