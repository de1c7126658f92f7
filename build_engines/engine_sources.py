"""The models whose networks engines are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from build_engines.codec_network import CodecNetwork
from build_engines.encoder_network import EncoderNetwork
from build_engines.engine_source import EngineSource

SOURCES: Mapping[str, Callable[[Path], EngineSource]] = {"encoder": EncoderNetwork, "vocoder": CodecNetwork}
"""By model: of a repository."""
